package pglock_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// brisk is a config whose leases are renewed every 100 ms.
// Its time-out is long: a busy machine ends no question.
var brisk = pglock.Config{
	TTL: 6 * time.Second, RenewInterval: 100 * time.Millisecond, RequestTimeout: 4 * time.Second, PollInterval: 20 * time.Millisecond,
}

func take(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	l, err := c.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	return l
}

// lost waits for the loss of a lease and returns why.
func lost(t testing.TB, l *pglock.Lease) *pglock.LostError {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	var e *pglock.LostError
	require.ErrorAs(t, context.Cause(l.Context()), &e)
	require.ErrorIs(t, e, pglock.ErrLost)
	require.Equal(t, error(e), l.Err())
	require.Zero(t, l.TimeLeft())
	require.Equal(t, l.Name(), e.Name)
	require.Equal(t, l.Token(), e.Token)
	return e
}

func TestLease_IsRenewed(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, brisk), "n")
	first := value[time.Time](t, in, "SELECT expires_at FROM %s.pglock_leases")
	token := value[int64](t, in, "SELECT token FROM %s.pglock_leases")
	require.Eventually(t, func() bool {
		return value[bool](t, in, "SELECT expires_at > $1::timestamptz + interval '500 milliseconds' FROM %s.pglock_leases", first)
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, l.Err())
	require.EqualValues(t, token, value[int64](t, in, "SELECT token FROM %s.pglock_leases"), "a renewal does not raise the token")
	require.Equal(t, fencing.Token(token), l.Token())
}

func TestLease_LossHasItsCause(t *testing.T) {
	t.Parallel()
	in := install(t)
	a, b := in.client(t, brisk), in.client(t, pglock.Config{Label: "b"})

	l := take(t, a, "taken over")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() WHERE name = $1", l.Name())
	// The holder and b race for the expired row: the holder can only find that it ran out, or that b has it.
	next := take(t, b, l.Name())
	e := lost(t, l)
	require.Contains(t, []pglock.LostReason{pglock.LostTakenOver, pglock.LostExpired}, e.Reason)
	if e.Reason == pglock.LostTakenOver {
		require.Equal(t, "b", e.By)
		require.Equal(t, next.Token(), e.NewToken)
	}

	l = take(t, a, "expired")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() WHERE name = $1", l.Name())
	require.Equal(t, pglock.LostExpired, lost(t, l).Reason)

	l = take(t, a, "revoked")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = NULL WHERE name = $1", l.Name())
	require.Equal(t, pglock.LostRevoked, lost(t, l).Reason)

	l = take(t, a, "deleted")
	in.exec(t, "DELETE FROM %s.pglock_leases WHERE name = $1", l.Name())
	require.Equal(t, pglock.LostDeleted, lost(t, l).Reason)
	require.ErrorIs(t, l.Release(t.Context()), pglock.ErrLost)

	kept := take(t, a, "kept")
	l = take(t, a, "rolled back")
	in.exec(t, "UPDATE %s.pglock_leases SET token = token, holder = gen_random_uuid() WHERE name = $1", l.Name())
	require.Equal(t, pglock.LostTakenOver, lost(t, l).Reason)
	require.NoError(t, kept.Err(), "the others live on")
}

func TestLease_DeletedRowIsNotRevived(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, brisk), "n")
	in.exec(t, "DELETE FROM %s.pglock_leases")
	lost(t, l)
	time.Sleep(3 * brisk.RenewInterval) // Room for a renewal too many.
	require.Zero(t, value[int](t, in, "SELECT count(*) FROM %s.pglock_leases"), "a renewal never inserts")
	next := take(t, in.client(t, pglock.Config{}), "n")
	require.Equal(t, l.Token()+1, next.Token(), "the fence kept the token")
}

// One row that somebody keeps locked costs neither the other leases nor, for a while, its own.
func TestLease_LockedRowIsNoLossAndStopsNoOther(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, brisk)
	locked, other := take(t, c, "locked"), take(t, c, "other")
	tx, err := in.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+quoted(in.schema)+".pglock_leases WHERE name = 'locked' FOR UPDATE")
	require.NoError(t, err)
	before := value[time.Time](t, in, "SELECT expires_at FROM %s.pglock_leases WHERE name = 'other'")
	require.Eventually(t, func() bool {
		return value[bool](t, in, "SELECT expires_at > $1::timestamptz + interval '300 milliseconds' FROM %s.pglock_leases WHERE name = 'other'", before)
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, locked.Err())
	require.NoError(t, tx.Rollback(t.Context()))
	after := value[time.Time](t, in, "SELECT expires_at FROM %s.pglock_leases WHERE name = 'locked'")
	require.Eventually(t, func() bool {
		return value[bool](t, in, "SELECT expires_at > $1 FROM %s.pglock_leases WHERE name = 'locked'", after)
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, locked.Err())
	require.NoError(t, other.Err())
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func TestRelease_FreesAndKeepsTheToken(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	l := take(t, c, "n")
	require.NoError(t, l.Release(t.Context()))
	require.ErrorIs(t, l.Err(), pglock.ErrReleased)
	require.ErrorIs(t, context.Cause(l.Context()), pglock.ErrReleased)
	require.Zero(t, l.TimeLeft())
	require.True(t, value[bool](t, in, "SELECT expires_at IS NULL AND token = 1 FROM %s.pglock_leases"))
	require.NoError(t, l.Release(t.Context()), "again")
	require.EqualValues(t, 2, take(t, c, "n").Token())
	require.NoError(t, l.Release(t.Context()), "and again, with the name held by the next")
	require.True(t, value[bool](t, in, "SELECT expires_at IS NOT NULL FROM %s.pglock_leases"))
}

func TestRelease_WorksWhenTheContextHasEnded(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, pglock.Config{}), "n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, l.Release(ctx))
	require.True(t, value[bool](t, in, "SELECT expires_at IS NULL FROM %s.pglock_leases"))
}

func TestRelease_OfALostLeaseLeavesTheNextHolder(t *testing.T) {
	t.Parallel()
	in := install(t)
	a, b := in.client(t, pglock.Config{}), in.client(t, pglock.Config{}) // Renewed every 20 s: a does not notice.
	l := take(t, a, "n")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp()")
	next := take(t, b, "n")
	err := l.Release(t.Context())
	require.ErrorIs(t, err, pglock.ErrLost)
	var e *pglock.LostError
	require.ErrorAs(t, err, &e)
	require.Equal(t, pglock.LostTakenOver, e.Reason)
	require.Equal(t, next.Token(), e.NewToken)
	require.Equal(t, err, l.Release(t.Context()))
	require.EqualValues(t, next.Token(), value[int64](t, in, "SELECT token FROM %s.pglock_leases WHERE expires_at > clock_timestamp()"))
	require.NoError(t, next.Release(t.Context()))
}

func TestRelease_AfterExpiryIsReported(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, pglock.Config{}), "n")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp()")
	var e *pglock.LostError
	require.ErrorAs(t, l.Release(t.Context()), &e)
	require.Equal(t, pglock.LostExpired, e.Reason)
}

func TestRelease_FromManyGoroutinesAtOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, pglock.Config{}), "n")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// Renewals every millisecond beside quick cycles: nothing that was released comes back.
func TestRelease_RenewalInFlightRevivesNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{TTL: 12 * time.Second, RenewInterval: time.Millisecond, RequestTimeout: 10 * time.Second})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			name := string(rune('a' + i))
			for range 100 {
				l, err := c.TryAcquire(t.Context(), name)
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, value[int](t, in, "SELECT count(*) FROM %s.pglock_leases WHERE expires_at IS NOT NULL"))
	require.EqualValues(t, 800, value[int64](t, in, "SELECT sum(token)::bigint FROM %s.pglock_leases"))
}

// A pool in full use costs no lease: renewals have a connection of their own.
func TestLease_SurvivesAStarvedPool(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	c := clientOf(t, pool, schema, pglock.Config{TTL: 4 * time.Second, RenewInterval: 200 * time.Millisecond, RequestTimeout: 3 * time.Second})
	l := take(t, c, "n")
	var pinned []*pgxpool.Conn
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		pinned = append(pinned, conn)
	}
	select {
	case <-l.Context().Done():
		t.Fatal(context.Cause(l.Context()))
	case <-time.After(6 * time.Second):
	}
	// Release has the pool in its way: it says so, and the row is freed in the background.
	require.ErrorContains(t, l.Release(t.Context()), "goes on in the background")
	require.Eventually(t, func() bool {
		var free bool
		err := pinned[0].QueryRow(t.Context(), "SELECT expires_at IS NULL FROM "+quoted(schema)+".pglock_leases").Scan(&free)
		return err == nil && free
	}, 10*time.Second, 10*time.Millisecond)
	for _, conn := range pinned {
		conn.Release()
	}
}

func TestLease_AcquireContextDoesNotGovernIt(t *testing.T) {
	t.Parallel()
	in := install(t)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := in.client(t, brisk).TryAcquire(ctx, "n")
	require.NoError(t, err)
	cancel()
	select {
	case <-l.Context().Done():
		t.Fatal(context.Cause(l.Context()))
	case <-time.After(2 * brisk.TTL):
	}
}

// What is lost is not renewed, and the next term of the same name in the same process is.
func TestLease_NextTermAfterALossIsRenewed(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{TTL: 4 * time.Second, RenewInterval: 100 * time.Millisecond, RequestTimeout: 3 * time.Second})
	l := take(t, c, "n")
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp()")
	lost(t, l)
	l = take(t, c, "n")
	select {
	case <-l.Context().Done():
		t.Fatal(context.Cause(l.Context()))
	case <-time.After(6 * time.Second):
	}
}

// All leases of a client are renewed by one statement, on a session that says what it is.
func TestClient_RenewsAllInOneStatement(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	in := installOn(t, server.DSN())
	c := in.client(t, pglock.Config{TTL: 12 * time.Second, RenewInterval: 200 * time.Millisecond, RequestTimeout: 10 * time.Second})
	for i := range 100 {
		take(t, c, strings.Repeat("n", i+1))
	}
	require.Eventually(t, func() bool {
		return value[int](t, in, "SELECT count(DISTINCT xmin::text) FROM %s.pglock_leases") == 1
	}, 10*time.Second, 5*time.Millisecond, "one transaction wrote all 100 rows")
	require.GreaterOrEqual(t, value[int](t, in, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pglock' AND state = 'idle'"), 1)
}

func TestClient_CleanLifeLogsNothingAboveInfo(t *testing.T) {
	t.Parallel()
	in := install(t)
	var out strings.Builder
	for range 20 {
		config := brisk
		config.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		c := in.client(t, config)
		l := take(t, c, "n")
		time.Sleep(brisk.RenewInterval / 2)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	}
	require.Empty(t, out.String())
}

func TestDo_RunsUnderAGrantAndReleases(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, brisk)
	failure := errors.New("work failed")
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	for _, want := range []error{nil, failure} {
		err := c.Do(ctx, "n", func(ctx context.Context, l *pglock.Lease) error {
			require.Equal(t, "value", ctx.Value(key{}))
			require.True(t, value[bool](t, in, "SELECT expires_at > clock_timestamp() FROM %s.pglock_leases"))
			require.ErrorIs(t, c.TryDo(ctx, "n", func(context.Context, *pglock.Lease) error { return nil }), pglock.ErrNotAcquired)
			require.ErrorContains(t, c.TryDo(ctx, "n", nil), "no work given")
			return want
		})
		require.Equal(t, want, err)
		require.True(t, value[bool](t, in, "SELECT expires_at IS NULL FROM %s.pglock_leases"))
	}
	require.PanicsWithValue(t, "boom", func() {
		_ = c.Do(t.Context(), "n", func(context.Context, *pglock.Lease) error { panic("boom") })
	})
	require.True(t, value[bool](t, in, "SELECT expires_at IS NULL FROM %s.pglock_leases"), "a panic releases too")
}

func TestDo_ReportsTheLossAlthoughWorkReturnedNil(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, brisk)
	err := c.Do(t.Context(), "n", func(ctx context.Context, l *pglock.Lease) error {
		in.exec(t, "UPDATE %s.pglock_leases SET expires_at = NULL")
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), pglock.ErrLost)
		return nil
	})
	require.ErrorIs(t, err, pglock.ErrLost)
	failure := errors.New("work failed")
	err = c.Do(t.Context(), "n", func(ctx context.Context, l *pglock.Lease) error {
		in.exec(t, "DELETE FROM %s.pglock_leases")
		return failure
	})
	require.ErrorIs(t, err, pglock.ErrLost)
	require.ErrorIs(t, err, failure)
}

// The lease is renewed until the work has returned, also after the caller's context ended: nobody starts beside it.
func TestDo_HoldsWhileTheWorkWindsDown(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{TTL: 4 * time.Second, RenewInterval: 200 * time.Millisecond, RequestTimeout: 3 * time.Second})
	other := in.client(t, pglock.Config{PollInterval: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		err := c.Do(ctx, "n", func(ctx context.Context, l *pglock.Lease) error {
			cancel()
			<-ctx.Done()
			time.Sleep(6 * time.Second) // Winds down for longer than the TTL.
			close(returned)
			return l.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-ctx.Done()
	l, err := other.Acquire(t.Context(), "n")
	require.NoError(t, err)
	select {
	case <-returned:
	default:
		t.Fatal("acquired beside work that had not returned")
	}
	group.Wait()
	require.NoError(t, l.Release(t.Context()))
}

// A holder whose term is over starts no shared transaction: they would keep the next grant out one after the other.
func TestLease_ShareTxNeedsALiveTerm(t *testing.T) {
	t.Parallel()
	in := install(t)
	l := take(t, in.client(t, pglock.Config{}), "n")
	require.NoError(t, pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error { return l.ShareTx(t.Context(), tx) }))
	require.NoError(t, l.Release(t.Context()))
	err := pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error { return l.ShareTx(t.Context(), tx) })
	require.ErrorIs(t, err, pglock.ErrReleased)
	require.NoError(t, pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error { return l.AdvanceTx(t.Context(), tx) }),
		"the database decides: nobody else was granted")
	in.exec(t, "UPDATE %s.job_fences SET token = token + 1")
	err = pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error { return l.AdvanceTx(t.Context(), tx) })
	require.ErrorIs(t, err, fencing.ErrStale)
}
