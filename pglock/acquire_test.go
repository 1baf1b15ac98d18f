package pglock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// A meter counts the statements that a pool sends, as a pgx tracer, and its writes to the network: pgx writes once and
// then waits for the answer, so that they are the round trips.
type meter struct{ statements, writes, dials atomic.Int64 }

func (m *meter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.dials.Add(1)
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return meteredConn{conn, m}, err
}

type meteredConn struct {
	net.Conn
	meter *meter
}

func (c meteredConn) Write(b []byte) (int, error) {
	c.meter.writes.Add(1)
	return c.Conn.Write(b)
}

func (m *meter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	m.statements.Add(1)
	return ctx
}
func (m *meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestTryAcquire_SaysWhoHasTheName(t *testing.T) {
	t.Parallel()
	in := install(t)
	a := in.client(t, pglock.Config{Label: "instance a", TTL: time.Minute})
	b := in.client(t, pglock.Config{Label: "instance b", TTL: 20 * time.Second})
	lease, err := a.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, "n", lease.Name())
	require.NoError(t, lease.Err())
	require.Greater(t, lease.TimeLeft(), 50*time.Second)
	require.LessOrEqual(t, lease.TimeLeft(), 58*time.Second, "TTL less the margin")

	for _, c := range []*pglock.Client{a, b} { // The holder's own client is no exception.
		_, err = c.TryAcquire(t.Context(), "n")
		require.ErrorIs(t, err, pglock.ErrNotAcquired)
		var held *pglock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "instance a", held.Holder)
		require.Equal(t, lease.Token(), held.Token)
		require.False(t, held.Busy)
		require.Greater(t, held.TimeLeft, 50*time.Second, "the holder's TTL counts, not the asker's")
		require.LessOrEqual(t, held.TimeLeft, time.Minute)
	}
}

func TestTryAcquire_StoresWhatPeopleNeed(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{Label: "a", Metadata: map[string]string{"build": "42"}, TTL: 30 * time.Second})
	_, err := c.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, "a 42", value[string](t, in, "SELECT label || ' ' || (metadata ->> 'build') FROM %s.pglock_leases"))
	require.InDelta(t, 30, value[float64](t, in, "SELECT extract(epoch FROM expires_at - renewed_at)::float8 FROM %s.pglock_leases"), 0.1)
}

func TestAcquire_UncontendedIsOneStatementAndOneRoundTrip(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	m := &meter{}
	config.ConnConfig.Tracer = m
	config.ConnConfig.DialFunc = m.dial
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	c := clientOf(t, pool, schema, pglock.Config{})
	l, err := c.TryAcquire(t.Context(), "first") // Looks at the server, too.
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))

	_, err = c.TryAcquire(t.Context(), "first")
	require.NoError(t, err) // Everything is prepared now. The renewer sleeps for 20 s.

	statements, writes := m.statements.Load(), m.writes.Load()
	one := func(what string) {
		t.Helper()
		require.EqualValues(t, 1, m.statements.Load()-statements, "statements: %s", what)
		require.EqualValues(t, 1, m.writes.Load()-writes, "round trips: %s", what)
		statements, writes = m.statements.Load(), m.writes.Load()
	}
	l, err = c.TryAcquire(t.Context(), "second")
	require.NoError(t, err)
	one("acquire")
	_, err = c.TryAcquire(t.Context(), "second")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	one("a refused try")
	require.NoError(t, l.Release(t.Context()))
	one("release")
}

// A failed attempt writes nothing (I4). The server is the test's own: its WAL counters are of the whole cluster.
func TestTryAcquire_RefusedWritesNoWALAndTakesNoRowLock(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, map[string]string{"autovacuum": "off", "checkpoint_timeout": "1d", "bgwriter_lru_maxpages": "0"})
	in := installOn(t, server.DSN())
	a, b := in.client(t, pglock.Config{}), in.client(t, pglock.Config{})
	lease, err := a.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	_, err = b.TryAcquire(t.Context(), "n") // Connects; the first use of catalogs may write hint bits.
	require.ErrorIs(t, err, pglock.ErrNotAcquired)

	const (
		wal   = "SELECT pg_current_wal_insert_lsn()::text"
		xid   = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
		row   = "SELECT xmin::text || ' ' || xmax::text || ' ' || ctid::text FROM %s.pglock_leases"
		fence = "SELECT xmin::text || ' ' || xmax::text || ' ' || ctid::text FROM %s.job_fences"
	)
	value[string](t, in, row) // Sets the hint bits.
	value[string](t, in, fence)
	walBefore, xidBefore := value[string](t, in, wal), value[string](t, in, xid)
	rowBefore, fenceBefore := value[string](t, in, row), value[string](t, in, fence)
	for range 200 {
		_, err = b.TryAcquire(t.Context(), "n")
		require.ErrorIs(t, err, pglock.ErrNotAcquired)
	}
	require.Equal(t, walBefore, value[string](t, in, wal), "no WAL")
	require.Equal(t, xidBefore, value[string](t, in, xid), "no transaction id")
	require.Equal(t, rowBefore, value[string](t, in, row), "no row lock, no new version")
	require.Equal(t, fenceBefore, value[string](t, in, fence))
	require.NoError(t, lease.Release(t.Context()))
	require.NotEqual(t, walBefore, value[string](t, in, wal), "the counter counts")
}

func TestTryAcquire_ExpiredLeaseIsTakenOverAtTheFirstTouch(t *testing.T) {
	t.Parallel()
	in := install(t)
	a := in.client(t, pglock.Config{Label: "a"})
	lease, err := a.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() - interval '1 second'")
	var events []pglock.Event
	b := in.client(t, pglock.Config{OnEvent: func(e pglock.Event) { events = append(events, e) }})
	next, err := b.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, lease.Token()+1, next.Token())
	require.Equal(t, pglock.EventTakenOver, events[0].Kind)
	require.NoError(t, next.Err())
}

func TestTryAcquire_ManyAtOnceOneIsGranted(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{TTL: time.Minute})
	last := fencing.Token(0)
	for range 30 {
		var granted atomic.Int64
		var lease atomic.Pointer[pglock.Lease]
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				l, err := c.TryAcquire(t.Context(), "n")
				if err == nil {
					granted.Add(1)
					lease.Store(l)
				} else if !errors.Is(err, pglock.ErrNotAcquired) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, granted.Load())
		require.Greater(t, lease.Load().Token(), last)
		last = lease.Load().Token()
		require.NoError(t, lease.Load().Release(t.Context()))
	}
	require.EqualValues(t, 30, last, "every grant takes the next token")
}

func TestAcquire_WaitsForTheRelease(t *testing.T) {
	t.Parallel()
	in := install(t)
	a, b := in.client(t, pglock.Config{}), in.client(t, pglock.Config{PollInterval: 20 * time.Millisecond})
	first, err := a.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	got := make(chan *pglock.Lease)
	go func() {
		l, err := b.Acquire(t.Context(), "n")
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	select {
	case <-got:
		t.Fatal("acquired what is held")
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, first.Release(t.Context()))
	second := <-got
	require.Equal(t, first.Token()+1, second.Token())
}

func TestAcquire_EndOfTheWaitIsBothErrors(t *testing.T) {
	t.Parallel()
	in := install(t)
	a, b := in.client(t, pglock.Config{Label: "a"}), in.client(t, pglock.Config{PollInterval: 20 * time.Millisecond})
	_, err := a.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = b.Acquire(ctx, "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var held *pglock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "a", held.Holder)
}

func TestAcquire_UnreachableDatabaseIsNotHeld(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	c, err := pglock.New(pool, pglock.Config{TTL: 6 * time.Second})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = c.Acquire(ctx, "n")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, pglock.ErrNotAcquired)
	require.ErrorContains(t, err, "could not be asked")
	_, err = c.TryAcquire(t.Context(), "n")
	require.Error(t, err)
	require.NotErrorIs(t, err, pglock.ErrNotAcquired)
	require.NoError(t, c.Close(t.Context()))
}

func TestTryAcquire_ForeignSessionInTheGateIsNamed(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	hostile, err := in.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer hostile.Release()
	key := pglock.GateKey(in.schema, "n")
	var pid int32
	require.NoError(t, hostile.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM pg_advisory_lock($1)", key).Scan(&pid))
	_, err = c.TryAcquire(t.Context(), "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	var held *pglock.HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, held.Busy)
	require.Equal(t, []int32{pid}, held.Blockers)
	_, err = hostile.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", key)
	require.NoError(t, err)
	_, err = c.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
}

// A take-over does not wait for the old holder's open fenced transaction, nor does it grant beside it.
func TestTryAcquire_OpenFencedTransactionIsBusy(t *testing.T) {
	t.Parallel()
	in := install(t)
	a, b := in.client(t, pglock.Config{}), in.client(t, pglock.Config{})
	for name, check := range map[string]func(*pglock.Lease, pgx.Tx) error{
		"advance": func(l *pglock.Lease, tx pgx.Tx) error { return l.AdvanceTx(t.Context(), tx) },
		"share":   func(l *pglock.Lease, tx pgx.Tx) error { return l.ShareTx(t.Context(), tx) },
	} {
		lease, err := a.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		tx, err := in.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		require.NoError(t, check(lease, tx))
		in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() WHERE name = $1", name)
		_, err = b.TryAcquire(t.Context(), name)
		var held *pglock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Busy, "%v", err)
		require.NoError(t, tx.Commit(t.Context()))
		next, err := b.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, lease.Token()+1, next.Token())
	}
}

func TestTwoSchemas_DoNotMeet(t *testing.T) {
	t.Parallel()
	one, two := install(t), install(t)
	a, b := one.client(t, pglock.Config{}), two.client(t, pglock.Config{})
	la, err := a.TryAcquire(t.Context(), "nightly")
	require.NoError(t, err)
	lb, err := b.TryAcquire(t.Context(), "nightly")
	require.NoError(t, err)
	require.Equal(t, la.Token(), lb.Token())
}
