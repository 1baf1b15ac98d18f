package pgserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Mode is a way to stop a server.
type Mode int

const (
	// Fast ends all sessions and writes a checkpoint.
	Fast Mode = iota
	// Immediate ends at once and leaves the recovery to the next start.
	Immediate
)

// String is the name that pg_ctl uses.
func (m Mode) String() string {
	if m == Immediate {
		return "immediate"
	}
	return "fast"
}

// limit bounds a change of state, so that a test that waits for one ends.
const limit = 60 * time.Second

var (
	errClosed  = errors.New("the server is closed")
	errStopped = errors.New("the server is stopped")
)

// engine is where a server comes from.
type engine interface {
	dsn() string
	source() string
	start(ctx context.Context) error
	stop(ctx context.Context, mode Mode) error
	kill() error
	pause() error
	resume() error
	remove() error
}

// Server is a PostgreSQL server. Stop, Start, Restart, Kill, Pause and Resume work on a private one only ([Options]);
// on a server that somebody else runs they return an error. It is safe for concurrent use; changes of state wait for
// each other.
type Server struct {
	dsn    string
	source string

	// mu is held across I/O on purpose: a test may fail, and close the server, while a goroutine of it restarts it.
	mu     sync.Mutex
	engine engine
	closed bool
}

func newServer(e engine) *Server { return &Server{dsn: e.dsn(), source: e.source(), engine: e} }

// DSN of a superuser on the server, except where the environment named the server: then it is that DSN. It stays the
// same through stops and starts.
func (s *Server) DSN() string { return s.dsn }

// Source says where the server comes from: "DATABASE_URL", "PostgreSQL 17.2 in /usr/lib/postgresql/17/bin",
// "Docker postgres:17-alpine", "PostgreSQL 17.5 downloaded".
func (s *Server) Source() string { return s.source }

// Stop stops the server. Stopping a stopped server is no error.
func (s *Server) Stop(mode Mode) error {
	return s.change("stop", func(ctx context.Context) error { return s.engine.stop(ctx, mode) })
}

// Start starts a stopped or killed server with its data and its DSN, and returns when it accepts connections.
func (s *Server) Start() error { return s.change("start", s.engine.start) }

// Restart is a fast stop and a start.
func (s *Server) Restart() error {
	return s.change("restart", func(ctx context.Context) error {
		if err := s.engine.stop(ctx, Fast); err != nil {
			return err
		}
		return s.engine.start(ctx)
	})
}

// Kill kills all processes of the server at once (SIGKILL). [Server.Start] recovers from it.
func (s *Server) Kill() error {
	return s.change("kill", func(context.Context) error { return s.engine.kill() })
}

// Pause freezes all processes of the server (SIGSTOP): connections stay open and nothing answers.
func (s *Server) Pause() error {
	return s.change("pause", func(context.Context) error { return s.engine.pause() })
}

// Resume lets a paused server go on.
func (s *Server) Resume() error {
	return s.change("resume", func(context.Context) error { return s.engine.resume() })
}

// Close ends the server and removes all that it left. A server that somebody else runs is left alone. Closing again
// does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.engine.remove(); err != nil {
		return fmt.Errorf("pgserver: close: %w", err)
	}
	return nil
}

func (s *Server) change(what string, how func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errClosed
	if !s.closed {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = how(ctx)
	}
	if err != nil {
		return fmt.Errorf("pgserver: %s: %w", what, err)
	}
	return nil
}
