package faultnet

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy on 127.0.0.1 in front of one server. It is safe for concurrent use.
type Proxy struct {
	t       testing.TB
	address string
	mode    *modeSwitch
	wire    Wire
	closing chan struct{}
	running sync.WaitGroup // every goroutine of the proxy

	changing sync.Mutex // one Set or Close at a time; held while the listener comes and goes

	mu       sync.Mutex
	listener net.Listener // nil: refusing
	target   string
	links    map[*link]struct{}
	accepted int
}

// Listen starts a proxy in front of target ("host:port", or the path of a Unix socket), in mode [Pass], and closes it
// at the end of the test.
func Listen(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("faultnet: %v", err)
	}
	p := &Proxy{
		t:        t,
		address:  listener.Addr().String(),
		mode:     newSwitch(),
		closing:  make(chan struct{}),
		listener: listener,
		target:   target,
		links:    map[*link]struct{}{},
	}
	p.running.Go(func() { p.accept(listener) })
	t.Cleanup(p.Close)
	return p
}

// ListenDSN is [Listen] in front of the server that a DSN names, and returns the DSN that leads through the proxy.
func ListenDSN(t testing.TB, dsn string) (*Proxy, string) {
	t.Helper()
	target, err := targetOf(dsn)
	if err != nil {
		t.Fatalf("faultnet: %v", err)
	}
	p := Listen(t, target)
	return p, p.DSN(dsn)
}

// Addr is where the proxy listens: "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.address }

// DSN is dsn with the proxy's host and port in place of its own.
func (p *Proxy) DSN(dsn string) string {
	p.t.Helper()
	rewritten, err := through(dsn, p.address)
	if err != nil {
		p.t.Fatalf("faultnet: %v", err)
	}
	return rewritten
}

// Set changes the mode, for open connections and for new ones. When it returns, the mode holds: bytes that arrive
// later meet it, and so do bytes that are still delayed or held.
func (p *Proxy) Set(mode Mode) {
	p.t.Helper()
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.closed() {
		return
	}
	p.mode.set(mode)
	if mode.Refuse {
		p.refuse()
	} else if err := p.admit(); err != nil {
		p.t.Errorf("faultnet: listen again: %v", err)
	}
}

// Reset cuts all open connections with a TCP reset on both sides. The mode stays.
func (p *Proxy) Reset() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
}

// Wire breaks round trips on the server's side of the proxy: what it cuts looks to the client like a reset.
func (p *Proxy) Wire() *Wire { return &p.wire }

// Retarget sends new connections to another server, as a failover does. Open ones stay where they are.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Accepted counts the connections since the start.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open counts the connections that are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close cuts all connections, stops listening and waits for the proxy's goroutines. Closing again does nothing.
func (p *Proxy) Close() {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.closed() {
		return
	}
	close(p.closing)
	p.refuse()
	p.Reset()
	p.running.Wait()
}

func (p *Proxy) closed() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

func (p *Proxy) refuse() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
}

// admit listens again on the same port. An outgoing connection of somebody may have it for a moment.
func (p *Proxy) admit() error {
	p.mu.Lock()
	listening := p.listener != nil
	p.mu.Unlock()
	for end := time.Now().Add(10 * time.Second); !listening; {
		listener, err := net.Listen("tcp", p.address)
		if err == nil {
			p.mu.Lock()
			p.listener = listener
			p.mu.Unlock()
			p.running.Go(func() { p.accept(listener) })
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by refuse
		}
		l := newLink(p, client)
		p.mu.Lock()
		p.accepted++
		p.links[l] = struct{}{}
		p.mu.Unlock()
		// Close may have looked at the links just before this one was among them.
		if p.closed() {
			l.reset()
		}
		p.running.Go(func() {
			l.serve()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
	}
}
