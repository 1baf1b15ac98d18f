package failover_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestMain(m *testing.M) {
	if os.Getenv(envClock) != "" {
		os.Exit(roleClock())
	}
	// Each test has servers of its own. The command line overrides this.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// patience is how long a test waits for what must come. It bounds a test that fails, and asserts nothing about speed.
const patience = 30 * time.Second

// pause is how often a test looks again.
const pause = 10 * time.Millisecond

// Configurations of clients. A lease of lasting outlives any stall of the test, and finds out soon what became of it.
// One of silent is not renewed while a test runs: its holder may as well be dead.
var (
	lasting = pglock.Config{
		Label: "lasting", TTL: time.Minute, RenewInterval: 100 * time.Millisecond, RequestTimeout: 3 * time.Second,
		PollInterval: 50 * time.Millisecond,
	}
	silent = pglock.Config{Label: "silent", TTL: 2 * time.Hour, RenewInterval: time.Hour, RequestTimeout: 3 * time.Second}
)

// lead is what follows an epoch in a token: the first token of epoch 1 is lead + 1.
const lead = fencing.Token(1) << 32

// install puts the tables into a database.
func install(t testing.TB, dsn string) {
	t.Helper()
	require.NoError(t, migrations.Up(t.Context(), migrations.URL(dsn), migrations.Options{}))
}

// client makes a client with a pool of its own, as another process would have it.
func client(t testing.TB, dsn string, config pglock.Config) *pglock.Client {
	t.Helper()
	c, err := pglock.New(pgtest.Pool(t, dsn), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.Close(ctx) // The test may have broken what it leads to.
	})
	return c
}

// take acquires at once.
func take(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	return lease
}

// takeSoon acquires, waiting.
func takeSoon(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	return receive(t, waitFor(t, c, name))
}

// waitFor has a client wait for a name in the background.
func waitFor(t testing.TB, c *pglock.Client, name string) <-chan *pglock.Lease {
	t.Helper()
	granted := make(chan *pglock.Lease, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() {
		lease, err := c.Acquire(ctx, name)
		if err == nil {
			granted <- lease
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("acquire: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		waiter.Wait()
	})
	return granted
}

// grants acquires and releases n times and returns the last token.
func grants(t testing.TB, dsn, name string, n int) fencing.Token {
	t.Helper()
	c := client(t, dsn, lasting)
	var token fencing.Token
	for range n {
		lease := take(t, c, name)
		require.Greater(t, lease.Token(), token, name)
		token = lease.Token()
		require.NoError(t, lease.Release(t.Context()))
	}
	return token
}

// held requires that the name is somebody else's.
func held(t testing.TB, c *pglock.Client, name string) *pglock.HeldError {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), name)
	require.Nil(t, lease)
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	var heldErr *pglock.HeldError
	require.ErrorAs(t, err, &heldErr)
	return heldErr
}

// lost waits for the loss of a lease and returns why.
func lost(t testing.TB, lease *pglock.Lease) *pglock.LostError {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the loss was not noticed")
	}
	var lostErr *pglock.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lostErr)
	return lostErr
}

// A check is one of the ways to pass a fence.
type check func(ctx context.Context, tx pgx.Tx) error

// advance is the check of an old holder, which need not know that its term is over.
func advance(name string, token fencing.Token) check {
	return func(ctx context.Context, tx pgx.Tx) error { return fencing.Fence{Name: name}.AdvanceTx(ctx, tx, token) }
}

func share(name string, token fencing.Token) check {
	return func(ctx context.Context, tx pgx.Tx) error { return fencing.Fence{Name: name}.ShareTx(ctx, tx, token) }
}

// write is a fenced transaction.
func write(t testing.TB, pool *pgxpool.Pool, passes check) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return passes(t.Context(), tx) })
}

// above requires that the next tokens of a name are above one handed out before, and that this one is refused by then.
func above(t testing.TB, dsn, name string, old fencing.Token) fencing.Token {
	t.Helper()
	pool := pgtest.Pool(t, dsn)
	lease := take(t, client(t, dsn, lasting), name)
	require.Greater(t, lease.Token(), old, name)
	require.ErrorIs(t, write(t, pool, advance(name, old)), fencing.ErrStale, name)
	require.NoError(t, write(t, pool, lease.ShareTx), name)
	require.NoError(t, lease.Release(t.Context()))
	return grants(t, dsn, name, 2)
}

// receive waits for what another goroutine sends.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	panic("unreachable")
}

// soon waits for a condition, which may end the test.
func soon(t testing.TB, condition func() bool, about ...any) {
	t.Helper()
	ticker, end := time.NewTicker(pause), time.Now().Add(patience)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(end) {
			require.Fail(t, "it did not come", about...)
			return
		}
		<-ticker.C
	}
}

// ask reads one value of a server.
func ask[T any](t testing.TB, dsn, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, onOne(t, dsn, func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), sql, args...).Scan(&v) }), sql)
	return v
}

// yes waits until a server answers a question with true.
func yes(t testing.TB, dsn, sql string, args ...any) {
	t.Helper()
	require.NoError(t, onOne(t, dsn, func(conn *pgx.Conn) error {
		var v bool
		soon(t, func() bool { return conn.QueryRow(t.Context(), sql, args...).Scan(&v) == nil && v }, sql)
		return nil
	}))
}

// run runs statements that may not be in a transaction.
func run(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	require.NoError(t, onOne(t, dsn, func(conn *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	}))
}

func onOne(t testing.TB, dsn string, do func(*pgx.Conn) error) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	return do(conn)
}

// events keeps what a client tells.
type events struct {
	mu   sync.Mutex
	kept []pglock.Event
}

func (e *events) add(event pglock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, event)
}

func (e *events) count(kind pglock.EventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, event := range e.kept {
		if event.Kind == kind {
			n++
		}
	}
	return n
}

// told is a configuration whose events are kept.
func told(config pglock.Config) (pglock.Config, *events) {
	e := new(events)
	config.OnEvent = e.add
	return config, e
}
