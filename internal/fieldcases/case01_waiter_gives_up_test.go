package fieldcases_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// Liquibase PR 6251: after its wait timed out, the tool "released" the lock in its clean-up although somebody else held it.
//
// The holder's row is compared with its version, so a write that puts the same values back would show.

func TestCase01_WaiterThatGivesUpLeavesTheHoldersRow(t *testing.T) {
	t.Parallel()
	p := install(t)
	// No renewal falls into the test, so the row must not change at all.
	a := p.client(t, pglock.Config{Label: "a", TTL: 5 * time.Minute})
	lease := take(t, a, "n")
	before := p.row(t, "n")

	t.Run("its time is up", func(t *testing.T) {
		b := p.client(t, pglock.Config{Label: "b", PollInterval: 50 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := b.Acquire(ctx, "n")
		require.Nil(t, got, "a handle that was never granted does not exist")
		require.ErrorIs(t, err, pglock.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, b.Close(t.Context()))
		require.Equal(t, before, p.row(t, "n"))
	})

	t.Run("it panics", func(t *testing.T) {
		b := p.client(t, pglock.Config{Label: "b", PollInterval: 50 * time.Millisecond})
		require.Panics(t, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			defer func() { _ = b.Close(ctx) }()
			panic(b.Do(ctx, "n", func(context.Context, *pglock.Lease) error { return nil }))
		})
		require.Equal(t, before, p.row(t, "n"))
	})

	t.Run("its process crashes by a panic", func(t *testing.T) {
		require.Equal(t, 2, start(t, "panic", p.environ("n")...).code(t))
		require.Equal(t, before, p.row(t, "n"))
	})

	for _, how := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGTERM, 0}, {syscall.SIGKILL, -1}} {
		t.Run("its process gets "+how.signal.String(), func(t *testing.T) {
			b := start(t, "wait", p.environ("n")...)
			b.line(t, "waiting")
			require.NoError(t, b.cmd.Process.Signal(how.signal))
			require.Equal(t, how.code, b.code(t))
			require.Equal(t, before, p.row(t, "n"))
		})
	}

	c := p.client(t, pglock.Config{Label: "c"})
	require.Equal(t, lease.Token(), held(t, c, "n").Token)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, lease.Token()+1, take(t, c, "n").Token(), "no grant happened in between")
}

// The sibling fault: finishing one run threw away the lock state of all others in the process.
func TestCase01_ClientsOfOneProcessShareNothing(t *testing.T) {
	t.Parallel()
	one := install(t)
	two := installOn(t, createDatabase(t, one))
	brisk := pglock.Config{Label: "one process", TTL: 6 * time.Second, RenewInterval: 100 * time.Millisecond}
	clients := []*pglock.Client{one.client(t, brisk), two.client(t, brisk), one.client(t, brisk)}
	first, second := take(t, clients[0], "n"), take(t, clients[1], "n")
	third := take(t, clients[2], "another")

	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, clients[0].Close(t.Context()))

	two.renewedAfter(t, "n", two.now(t))
	one.renewedAfter(t, "another", one.now(t))
	for _, lease := range []*pglock.Lease{second, third} {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	}
	require.True(t, value[bool](t, two, "SELECT expires_at IS NULL FROM %s.pglock_leases WHERE name = 'n'"))
}

// createDatabase makes a second database on the server of p and returns its DSN.
func createDatabase(t *testing.T, p place) string {
	t.Helper()
	name := strings.ToLower("leasehold_" + rand.Text()[:10])
	p.exec(t, "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() {
		_, err := p.admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	if !strings.Contains(p.dsn, "://") {
		return p.dsn + " dbname=" + name
	}
	address, err := url.Parse(p.dsn)
	require.NoError(t, err)
	address.Path = "/" + name
	return address.String()
}

// environ tells a process where the lease is.
func (p place) environ(name string) []string {
	return []string{"CASE_DSN=" + p.dsn, "CASE_SCHEMA=" + p.schema, "CASE_NAME=" + name}
}

// roleWait waits for a lease like a well-behaved program: SIGTERM ends the wait, and a deferred clean-up runs.
func roleWait() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, done, err := processClient(ctx)
	if err != nil {
		return failed(err)
	}
	defer done()
	err = client.Do(ctx, os.Getenv("CASE_NAME"), func(context.Context, *pglock.Lease) error {
		say("granted")
		return nil
	})
	say("ended %v", err)
	return 0
}

// rolePanic waits, and another goroutine panics meanwhile: deferred functions of the waiter do not run.
func rolePanic() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, done, err := processClient(ctx)
	if err != nil {
		return failed(err)
	}
	defer done()
	go func() {
		_, err := client.TryAcquire(ctx, os.Getenv("CASE_NAME"))
		panic(err)
	}()
	_, _ = client.Acquire(context.Background(), os.Getenv("CASE_NAME"))
	return 1
}

// processClient is the client of a process that was told where by environ. It says "waiting" when it waits.
func processClient(ctx context.Context) (*pglock.Client, func(), error) {
	dsn, schema := os.Getenv("CASE_DSN"), os.Getenv("CASE_SCHEMA")
	if dsn == "" || schema == "" {
		return nil, nil, errNoRole
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	client, err := pglock.New(pool, pglock.Config{Schema: schema, Label: "process", PollInterval: 50 * time.Millisecond,
		Logger: slog.New(waitTeller{slog.DiscardHandler})})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close(context.Background())
		pool.Close()
	}, nil
}

// A waitTeller says when the client logs that it waits.
type waitTeller struct{ slog.Handler }

func (waitTeller) Enabled(context.Context, slog.Level) bool { return true }

func (waitTeller) Handle(_ context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, "waiting") {
		say("waiting")
	}
	return nil
}
