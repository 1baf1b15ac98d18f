package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"cirello.io/pglock"
	gopglock "github.com/allisson/go-pglock/v3"

	"github.com/leasehold-go/leasehold/bench"
	leasehold "github.com/leasehold-go/leasehold/pglock"
)

var errHeld = errors.New("peers: not granted")

// openFloor is floor.sql from Go: the least that can grant and release a lease with a fence.
func openFloor(ctx context.Context, g *ground) (peer, error) {
	pool, err := g.pool(ctx)
	if err != nil {
		return peer{}, err
	}
	grant, release := bench.Floor()
	return peer{"floor, from Go", func(ctx context.Context, client int) error {
		name, holder := fmt.Sprint("floor", client), strconv.FormatUint(rand.Uint64(), 10)
		var token int64
		if err := pool.QueryRow(ctx, grant, name, holder).Scan(&token); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, release, name, holder)
		return err
	}, pool.Close}, nil
}

func openLeasehold(ctx context.Context, g *ground) (peer, error) {
	pool, err := g.pool(ctx)
	if err != nil {
		return peer{}, err
	}
	client, err := leasehold.New(pool, leasehold.Config{})
	if err != nil {
		return peer{}, err
	}
	return peer{"Leasehold", func(ctx context.Context, n int) error {
		lease, err := client.TryAcquire(ctx, fmt.Sprint("leasehold", n))
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}, func() {
		_ = client.Close(ctx)
		pool.Close()
	}}, nil
}

// openSession is an advisory lock of the session, by hand: a connection is held while the lock is.
func openSession(ctx context.Context, g *ground) (peer, error) {
	pool, err := g.pool(ctx)
	if err != nil {
		return peer{}, err
	}
	return peer{"pgx, advisory lock by hand", func(ctx context.Context, client int) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		var ok bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", client).Scan(&ok); err != nil {
			return err
		}
		if !ok {
			return errHeld
		}
		_, err = conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", client)
		return err
	}, pool.Close}, nil
}

// database is a pool of database/sql with lib/pq that keeps its connections: by default it keeps two.
func (g *ground) database() (*sql.DB, error) {
	db, err := sql.Open("postgres", g.dsn) // The driver comes with both peers.
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

func openGoPglock(ctx context.Context, g *ground) (peer, error) {
	db, err := g.database()
	if err != nil {
		return peer{}, err
	}
	return peer{"allisson/go-pglock", func(ctx context.Context, client int) error {
		l, err := gopglock.NewLock(ctx, int64(1000+client), db)
		if err != nil {
			return err
		}
		defer l.Close()
		if ok, err := l.Lock(ctx); err != nil || !ok {
			return errors.Join(err, errHeld)
		}
		return l.Unlock(ctx)
	}, func() { _ = db.Close() }}, nil
}

func openPglock(_ context.Context, g *ground) (peer, error) {
	return g.openPglock("cirello.io/pglock", "locks", pglock.WithHeartbeatFrequency(pglock.DefaultHeartbeatFrequency))
}

// openPglockSilent is without the first heartbeat, which the defaults send at once.
func openPglockSilent(_ context.Context, g *ground) (peer, error) {
	return g.openPglock("cirello.io/pglock, no heartbeats", "locks_silent", pglock.WithHeartbeatFrequency(time.Duration(0)))
}

func (g *ground) openPglock(name, table string, option pglock.ClientOption) (peer, error) {
	db, err := g.database()
	if err != nil {
		return peer{}, err
	}
	client, err := pglock.New(db, option, pglock.WithCustomTable(table))
	if err != nil {
		return peer{}, err
	}
	if err := client.TryCreateTable(); err != nil {
		return peer{}, err
	}
	return peer{name, func(ctx context.Context, n int) error {
		l, err := client.AcquireContext(ctx, fmt.Sprint("n", n), pglock.FailIfLocked())
		if err != nil {
			return err
		}
		return client.ReleaseContext(ctx, l)
	}, func() { _ = db.Close() }}, nil
}
