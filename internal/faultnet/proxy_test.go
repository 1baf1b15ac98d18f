package faultnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server that answers every byte with itself and counts what it got.
type echo struct {
	listener net.Listener
	running  sync.WaitGroup
	ends     chan error // how each connection ended

	mu    sync.Mutex
	conns []net.Conn
	got   string
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{listener: listener, ends: make(chan error, 100)}
	e.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, conn)
			e.mu.Unlock()
			e.running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		e.mu.Lock()
		for _, conn := range e.conns {
			_ = conn.Close()
		}
		e.mu.Unlock()
		e.running.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	buffer := make([]byte, 1024)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			e.ends <- err
			return
		}
		e.mu.Lock()
		e.got += string(buffer[:n])
		e.mu.Unlock()
		_, _ = conn.Write(buffer[:n])
	}
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

func (e *echo) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

func (e *echo) address() string { return e.listener.Addr().String() }

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

func receive(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// silent requires that nothing comes, neither bytes nor an end.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Zero(t, n)
}

func eventually(t *testing.T, yes func() bool, what string) {
	t.Helper()
	require.Eventually(t, yes, 10*time.Second, time.Millisecond, what)
}

func TestProxy_PassesBothWaysAndCounts(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	for i := range 3 {
		conn := dial(t, p)
		send(t, conn, "hello")
		receive(t, conn, "hello")
		require.Equal(t, i+1, p.Accepted())
		require.Equal(t, 1, p.Open())
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-e.ends, io.EOF, "an end arrives as an end")
		eventually(t, func() bool { return p.Open() == 0 }, "closed")
	}
}

func TestProxy_PassesTheLastWordsOfTheServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	p := Listen(t, listener.Addr().String())
	conn := dial(t, p)
	server, err := listener.Accept()
	require.NoError(t, err)
	send(t, server, "last words")
	require.NoError(t, server.Close())
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "last words", string(all))
}

func TestProxy_BlackHoleSwallowsWithoutASign(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	old, idle, gone := dial(t, p), dial(t, p), dial(t, p)
	for _, conn := range []net.Conn{old, idle, gone} {
		send(t, conn, "a")
		receive(t, conn, "a")
	}
	p.Set(BlackHole())
	send(t, old, "b")
	silent(t, old)
	fresh := dial(t, p)
	send(t, fresh, "c")
	silent(t, fresh)
	require.NoError(t, gone.Close())
	select {
	case <-e.ends:
		require.Fail(t, "the server saw the end of a connection through a black hole")
	case <-time.After(100 * time.Millisecond):
	}
	require.Equal(t, "aaa", e.received())
	require.Equal(t, 3, e.count(), "the server does not see new connections")

	p.Set(Pass())
	require.ErrorIs(t, <-e.ends, io.EOF, "the end gets through at last")
	send(t, idle, "d")
	receive(t, idle, "d")
	send(t, old, "e")
	silent(t, old)
	send(t, fresh, "f")
	silent(t, fresh)
	newest := dial(t, p)
	send(t, newest, "g")
	receive(t, newest, "g")
	require.Equal(t, "aaadg", e.received(), "nothing of a torn stream")
}

func TestProxy_DropRepliesLetsTheServerWork(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")
	p.Set(DropReplies())
	send(t, conn, "b")
	eventually(t, func() bool { return e.received() == "ab" }, "the request arrives")
	silent(t, conn)
	p.Set(Pass())
	send(t, conn, "c")
	eventually(t, func() bool { return e.received() == "abc" }, "requests go on")
	silent(t, conn)
}

func TestProxy_HoldDeliversLater(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")

	p.Set(Mode{Replies: Held()})
	send(t, conn, "b")
	eventually(t, func() bool { return e.received() == "ab" }, "only replies are held")
	silent(t, conn)
	p.Set(Hold())
	send(t, conn, "c")
	fresh := dial(t, p)
	send(t, fresh, "d")
	silent(t, fresh)
	require.Equal(t, "ab", e.received())
	require.Equal(t, 1, e.count())

	p.Set(Pass())
	receive(t, conn, "bc")
	receive(t, fresh, "d")
}

func TestProxy_DelayIsLatencyInEachDirection(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	conn := dial(t, p)
	const late = 150 * time.Millisecond
	for mode, least := range map[Mode]time.Duration{
		Delay(late):            2 * late,
		{Requests: Late(late)}: late,
		{Replies: Late(late)}:  late,
	} {
		p.Set(mode)
		start := time.Now()
		for range 10 {
			send(t, conn, "x") // many under way at once
			time.Sleep(time.Millisecond)
		}
		receive(t, conn, "xxxxxxxxxx")
		took := time.Since(start)
		require.GreaterOrEqual(t, took, least)
		require.Less(t, took, least+8*late, "delays do not add up")
	}

	// A change applies to what is under way.
	p.Set(Delay(time.Hour))
	send(t, conn, "y")
	silent(t, conn)
	p.Set(Pass())
	receive(t, conn, "y")
}

func TestProxy_RefuseTurnsAwayNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")
	for range 3 {
		p.Set(Refuse())
		require.Eventually(t, func() bool { // The port is free meanwhile: somebody else's test may have it for a moment.
			other, err := net.Dial("tcp", p.Addr())
			if err == nil {
				_ = other.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		}, 10*time.Second, time.Millisecond)
		send(t, conn, "b")
		receive(t, conn, "b")
		p.Set(Pass())
		again := dial(t, p)
		send(t, again, "c")
		receive(t, again, "c")
	}
}

func TestProxy_ResetCutsBothSides(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	for _, mode := range []Mode{Pass(), BlackHole(), Hold(), Delay(time.Hour)} {
		p.Set(Pass())
		conn := dial(t, p)
		send(t, conn, "a")
		receive(t, conn, "a")
		p.Set(mode)
		send(t, conn, "b")
		p.Reset()
		_, err := io.ReadAll(conn) // an answer may have come before the reset
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, <-e.ends, syscall.ECONNRESET)
		eventually(t, func() bool { return p.Open() == 0 }, "gone")
	}
}

func TestProxy_PassesOnAReset(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := Listen(t, e.address())
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")
	cut(conn)
	require.ErrorIs(t, <-e.ends, syscall.ECONNRESET)
}

func TestProxy_WithoutAServerResets(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	address := e.address()
	require.NoError(t, e.listener.Close())
	p := Listen(t, address)
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestProxy_RetargetsNewConnections(t *testing.T) {
	t.Parallel()
	first, second := startEcho(t), startEcho(t)
	p := Listen(t, first.address())
	old := dial(t, p)
	send(t, old, "a")
	receive(t, old, "a")
	p.Retarget(second.address())
	fresh := dial(t, p)
	send(t, fresh, "b")
	receive(t, fresh, "b")
	send(t, old, "c")
	receive(t, old, "c")
	require.Equal(t, "ac", first.received())
	require.Equal(t, "b", second.received())
}

// TestProxy_CloseWaitsForEverything relies on goleak in TestMain for the goroutines.
func TestProxy_CloseWaitsForEverything(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	for _, mode := range []Mode{Pass(), BlackHole(), Hold(), DropReplies(), Refuse(), Delay(time.Hour)} {
		p := Listen(t, e.address())
		conn := dial(t, p)
		send(t, conn, "a")
		receive(t, conn, "a")
		p.Set(mode)
		send(t, conn, "b")
		if !mode.Refuse {
			send(t, dial(t, p), "c")
		}
		p.Close()
		require.Zero(t, p.Open())
		_, err := net.Dial("tcp", p.Addr())
		require.Error(t, err)
		p.Close()
		p.Set(Pass())
		_, err = net.Dial("tcp", p.Addr())
		require.Error(t, err, "closed for good")
	}
}
