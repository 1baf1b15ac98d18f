package faultnet

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// link is one connection through the proxy.
type link struct {
	proxy *Proxy

	once  sync.Once
	ended chan struct{} // closed when the link is being taken down

	mu     sync.Mutex
	client net.Conn
	server net.Conn // nil until dialled
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, ended: make(chan struct{})}
}

// serve copies until both directions have ended.
func (l *link) serve() {
	if !l.admitted() {
		// Nobody will ever answer. The client finds out in its own time.
		_, _ = io.Copy(io.Discard, l.client)
		l.end(false)
		return
	}
	server, err := l.dial()
	if err != nil {
		l.end(true)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(l.client, server, func(m Mode) Flow { return m.Requests }) })
	both.Go(func() { l.pump(server, l.client, func(m Mode) Flow { return m.Replies }) })
	both.Wait()
	l.end(false)
}

// admitted waits until requests get through: the server must not see a client that a partition cuts off. It is false
// if requests are swallowed, and with them the client's first bytes.
func (l *link) admitted() bool {
	var last Mode
	decided := func(m Mode) bool {
		last = m
		return m.Requests.kind != hold
	}
	return l.proxy.mode.until(l.ended, decided) && last.Requests.kind == pass
}

func (l *link) dial() (net.Conn, error) {
	l.proxy.mu.Lock()
	target := l.proxy.target
	l.proxy.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(target, "/") {
		network = "unix"
	}
	server, err := net.DialTimeout(network, target, 5*time.Second)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended: // too early to have seen the connection
		cut(server)
		return nil, net.ErrClosed
	default:
		l.server = newWireConn(&l.proxy.wire, server)
		return l.server, nil
	}
}

// reset cuts both sides.
func (l *link) reset() { l.end(true) }

// end closes both sides; what was written is still delivered unless hard. Only the first call counts.
func (l *link) end(hard bool) {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.ended)
		for _, conn := range []net.Conn{l.client, l.server} {
			switch {
			case conn == nil:
			case hard:
				cut(conn)
			default:
				_ = conn.Close()
			}
		}
	})
}

// cut closes with a reset: linger 0 throws away what is not delivered.
func cut(conn net.Conn) {
	if wired, ok := conn.(*wireConn); ok {
		wired.cut()
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// parcel is what was read at once, and when; without bytes, a reset.
type parcel struct {
	bytes []byte
	at    time.Time
}

// pump carries one direction. Reading and writing are apart, so that a delay does not slow down what comes after it.
func (l *link) pump(from, to net.Conn, flow func(Mode) Flow) {
	parcels := make(chan parcel, 1024)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(parcels)
		l.read(from, parcels)
	})
	l.write(to, parcels, flow)
	reader.Wait()
}

func (l *link) read(from net.Conn, parcels chan<- parcel) {
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 && !l.hand(parcels, parcel{buffer[:n], time.Now()}) {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				// A reset is passed on as one, in its turn.
				l.hand(parcels, parcel{})
			}
			return
		}
	}
}

// hand is false if the link ended first.
func (l *link) hand(parcels chan<- parcel, p parcel) bool {
	select {
	case parcels <- p:
		return true
	case <-l.ended:
		return false
	}
}

// write decides about each parcel at the moment it is due, by the mode of that moment.
func (l *link) write(to net.Conn, parcels <-chan parcel, flow func(Mode) Flow) {
	lost, broken := false, false
	for p := range parcels {
		if p.bytes == nil {
			broken = true
			break
		}
		passes, swallowed := l.due(p, flow)
		lost = lost || swallowed
		if !passes || lost {
			continue
		}
		if _, err := to.Write(p.bytes); err != nil {
			broken = true
			break
		}
	}
	// The end of a stream gets through when bytes do.
	if !l.proxy.mode.until(l.ended, func(m Mode) bool { return flow(m).kind == pass }) {
		return
	}
	if broken {
		l.reset()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// due waits until a parcel may pass or is swallowed; it is neither if the link ends first. A change of the mode
// applies to what is under way.
func (l *link) due(p parcel, flow func(Mode) Flow) (passes, swallowed bool) {
	var drawn *loss // by which late was
	var late time.Duration
	for {
		mode, changed := l.proxy.mode.get()
		f := flow(mode)
		if f.kind == swallow {
			return false, true
		}
		if f.loss != drawn {
			if drawn, late = f.loss, 0; drawn != nil {
				late = drawn.delay()
			}
		}
		var timer <-chan time.Time
		if f.kind == pass {
			rest := time.Until(p.at.Add(f.delay + late))
			if rest <= 0 {
				return true, false
			}
			timer = time.After(rest)
		}
		select {
		case <-timer:
		case <-changed:
		case <-l.ended:
			return false, false
		}
	}
}
