package faultnet

import "encoding/binary"

// Codes that stand in place of the protocol version in the first message of a connection.
const (
	codeStartup = 3 << 16 // and minor versions
	codeSSL     = 80877103
	codeGSS     = 80877104
)

// Kinds of messages that matter here.
const (
	kindQuery = 'Q' // client
	kindSync  = 'S' // client
	kindReady = 'Z' // server
)

// scanner finds the messages in one direction of a connection, however the bytes are cut into pieces. A message is a
// byte of kind, four bytes of length (which count themselves) and a body; a client's first messages have no kind.
type scanner struct {
	untyped bool
	header  []byte
	rest    int // bytes of the body still to come
}

// message is what a scanner reports at the end of one.
type message struct {
	kind byte   // 0 if untyped
	code uint32 // of an untyped message
}

// next consumes b up to the end of a message and returns what follows; done is false if b ends first.
func (s *scanner) next(b []byte) (m message, after []byte, done bool) {
	size := 5
	if s.untyped {
		size = 8
	}
	if missing := size - len(s.header); missing > 0 {
		n := min(missing, len(b))
		s.header, b = append(s.header, b[:n]...), b[n:]
		if len(s.header) < size {
			return message{}, nil, false
		}
		if s.untyped {
			s.rest = max(0, int(binary.BigEndian.Uint32(s.header))-8) // Below is no message of PostgreSQL.
		} else {
			s.rest = max(0, int(binary.BigEndian.Uint32(s.header[1:]))-4)
		}
	}
	n := min(s.rest, len(b))
	s.rest, b = s.rest-n, b[n:]
	if s.rest > 0 {
		return message{}, nil, false
	}
	if s.untyped {
		m.code = binary.BigEndian.Uint32(s.header[4:])
	} else {
		m.kind = s.header[0]
	}
	s.header = s.header[:0]
	return m, b, true
}

// between says that no message is half done.
func (s *scanner) between() bool { return len(s.header) == 0 }
