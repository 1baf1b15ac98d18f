package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// errNoStandby is for servers that cannot be copied.
var errNoStandby = errors.New("a standby needs a running server from PostgreSQL binaries on this machine, with pg_basebackup among them")

// CanStandby says whether [Server.Standby] can work: the server comes from binaries that have pg_basebackup beside them.
func (s *Server) CanStandby() bool {
	c, ok := s.engine.(*cluster)
	if !ok {
		return false
	}
	_, err := os.Stat(c.binaries.tool("pg_basebackup"))
	return err == nil
}

// Standby starts a hot standby of the server, which streams from it asynchronously: what the primary commits may be
// missing there when the primary dies. It is a server of its own; the caller closes it.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.CanStandby() || s.engine.(*cluster).postmaster == nil || s.closed {
		return nil, fmt.Errorf("pgserver: standby: %w", errNoStandby)
	}
	primary := s.engine.(*cluster)
	c, err := build(ctx, primary.binaries, func(c *cluster) error {
		return c.tool(ctx, "pg_basebackup", "--pgdata", c.data(), "--host", "127.0.0.1", "--port", strconv.Itoa(primary.port),
			"--username", "postgres", "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	})
	if err != nil {
		return nil, fmt.Errorf("pgserver: standby: %w", err)
	}
	return newServer(c), nil
}

// Promote makes a standby a primary of its own, on the next timeline, and returns when it accepts writes.
func (s *Server) Promote(ctx context.Context) error {
	return s.query(ctx, "promote", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_promote(wait => false)"); err != nil {
			return err
		}
		return until(ctx, conn, "SELECT NOT pg_is_in_recovery()")
	})
}

// Detach ends a standby's streaming: nothing that the primary commits afterwards arrives. It is how a test makes a
// failover lose commits, and it stands for an asynchronous standby that lags.
func (s *Server) Detach(ctx context.Context) error {
	return s.query(ctx, "detach", func(conn *pgx.Conn) error {
		for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return until(ctx, conn, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
	})
}

// CatchUp waits until a standby has replayed what the primary has written so far.
func (s *Server) CatchUp(ctx context.Context, primary *Server) error {
	var written string
	err := primary.query(ctx, "catch up", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&written)
	})
	if err != nil {
		return err
	}
	return s.query(ctx, "catch up", func(conn *pgx.Conn) error {
		return until(ctx, conn, "SELECT pg_last_wal_replay_lsn() >= '"+written+"'::pg_lsn")
	})
}

func (s *Server) query(ctx context.Context, what string, ask func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return fmt.Errorf("pgserver: %s: %w", what, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := ask(conn); err != nil {
		return fmt.Errorf("pgserver: %s: %w", what, err)
	}
	return nil
}

// until asks until the answer is yes: the server tells nobody.
func until(ctx context.Context, conn *pgx.Conn, sql string) error {
	for {
		var yes bool
		if err := conn.QueryRow(ctx, sql).Scan(&yes); err != nil || yes {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
