package faultnet

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// wireConn is one connection of a [Wire].
type wireConn struct {
	net.Conn
	wire *Wire

	sent scanner // used by Write only

	mu       sync.Mutex
	received scanner
	raw      int  // bytes to come from the server that are no message: its answer to a request for encryption
	waiting  int  // round trips whose end the server has not told yet
	dropping bool // replies are thrown away, and the connection breaks after the last one
	due      time.Time
	deadline time.Time
	changed  chan struct{} // closed when deadline changes or the connection is closed
	closed   bool
}

func newWireConn(w *Wire, conn net.Conn) *wireConn {
	return &wireConn{Conn: conn, wire: w, sent: scanner{untyped: true}, changed: make(chan struct{})}
}

// Write is one flush of pgx.
func (c *wireConn) Write(b []byte) (int, error) {
	if !c.scanSent(b) {
		return c.Conn.Write(b)
	}
	fault := c.wire.next()
	switch fault.kind {
	case beforeSend:
		c.cut()
		return 0, broken("write")
	case afterSend:
		c.mu.Lock()
		c.dropping = true
		c.mu.Unlock()
	case lateReply:
		c.mu.Lock()
		c.due = time.Now().Add(fault.delay)
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// scanSent notes what the client sends and says whether b ends a round trip.
func (c *wireConn) scanSent(b []byte) (trip bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last message
	for len(b) > 0 {
		m, after, done := c.sent.next(b)
		if !done {
			break
		}
		last, b = m, after
		switch {
		case m.kind == kindQuery || m.kind == kindSync:
			c.waiting++
		case m.kind == 0 && (m.code == codeSSL || m.code == codeGSS):
			c.raw++
		case m.kind == 0 && m.code>>16 == codeStartup>>16:
			c.sent.untyped = false
			c.waiting++ // the server ends this one too, but it is not for pgx's users
		}
	}
	return c.sent.between() && (last.kind == kindQuery || last.kind == kindSync)
}

// Read hands on what the server says, unless the plan is that nobody hears it.
func (c *wireConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 && c.scanReceived(b[:n]) {
			if err == nil {
				continue
			}
			n = 0
		}
		if c.dropped() {
			c.cut()
			return 0, broken("read")
		}
		if err == nil {
			if err = c.wait(); err != nil {
				// The bytes are lost with the connection: after a deadline pgx closes it.
				return 0, err
			}
		}
		return n, err
	}
}

// scanReceived notes what the server says and says whether it goes on being dropped.
func (c *wireConn) scanReceived(b []byte) (drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(c.raw, len(b))
	c.raw, b = c.raw-n, b[n:]
	for len(b) > 0 {
		m, after, done := c.received.next(b)
		if !done {
			break
		}
		b = after
		if m.kind == kindReady {
			c.waiting--
		}
	}
	return c.dropping && c.waiting > 0
}

func (c *wireConn) dropped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropping && c.waiting <= 0
}

// wait returns when a late reply is due, or with the error that an expired deadline or a closed connection gives.
func (c *wireConn) wait() error {
	for {
		c.mu.Lock()
		due, deadline, changed, closed := c.due, c.deadline, c.changed, c.closed
		c.mu.Unlock()
		now := time.Now()
		switch {
		case !now.Before(due):
			return nil
		case closed:
			return net.ErrClosed
		case !deadline.IsZero() && !now.Before(deadline):
			return os.ErrDeadlineExceeded
		}
		if !deadline.IsZero() && deadline.Before(due) {
			due = deadline
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}

// SetDeadline is how pgx makes a context end a read.
func (c *wireConn) SetDeadline(at time.Time) error {
	c.change(func() { c.deadline = at })
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline is half of SetDeadline.
func (c *wireConn) SetReadDeadline(at time.Time) error {
	c.change(func() { c.deadline = at })
	return c.Conn.SetReadDeadline(at)
}

// CloseWrite is the end of what the client says.
func (c *wireConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends a wait too.
func (c *wireConn) Close() error {
	c.change(func() { c.closed = true })
	return c.Conn.Close()
}

func (c *wireConn) cut() {
	c.change(func() { c.closed = true })
	cut(c.Conn)
}

func (c *wireConn) change(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
	close(c.changed)
	c.changed = make(chan struct{})
}

// broken is the error of a connection that the other side has reset.
func broken(op string) error { return &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET} }
