package pglock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestRaiseEpoch_RefusesAllThatWasGranted(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, brisk)
	held := take(t, c, "held")
	require.NoError(t, take(t, c, "free").Release(t.Context()))

	raised, err := in.client(t, pglock.Config{}).RaiseEpoch(t.Context())
	require.NoError(t, err)
	require.Equal(t, pglock.Raise{Base: 1024, Leases: 1, Fences: 2}, raised)
	require.Equal(t, pglock.LostRevoked, lost(t, held).Reason)
	err = pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error { return held.AdvanceTx(t.Context(), tx) })
	require.ErrorIs(t, err, fencing.ErrStale)
	for _, name := range []string{"held", "free", "never seen"} {
		require.EqualValues(t, 1024<<32+1, take(t, c, name).Token(), name)
	}

	again, err := c.RaiseEpoch(t.Context())
	require.NoError(t, err)
	require.Equal(t, pglock.Raise{Base: 2048, Leases: 3, Fences: 3}, again)
	require.EqualValues(t, 2048<<32+1, take(t, c, "held").Token())
}

// A raise that waits for the fence of a grant frees that grant too, although the lease was free when the raise began.
func TestRaiseEpoch_FreesAGrantThatItWaitedFor(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	require.NoError(t, take(t, c, "n").Release(t.Context()))
	tx, err := in.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	acquire, err := pglock.Statement("acquire", in.schema, false)
	require.NoError(t, err)
	var outcome string
	var token int64
	require.NoError(t, tx.QueryRow(t.Context(), acquire, "n", "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", time.Hour.Microseconds(),
		pglock.GateKey(in.schema, "n"), "slow", "{}").Scan(&outcome, &token, nil, nil, nil, nil, nil))
	require.Equal(t, "granted", outcome)
	var pid int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))

	done := make(chan pglock.Raise, 1)
	go func() {
		defer close(done)
		if raised, err := c.RaiseEpoch(t.Context()); err == nil {
			done <- raised
		}
	}()
	require.Eventually(t, func() bool {
		return value[bool](t, in, "SELECT count(*) > 0 FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))", pid)
	}, 20*time.Second, 10*time.Millisecond, "the raise waits")
	require.NoError(t, tx.Commit(t.Context()))
	raised, ok := <-done
	require.True(t, ok)
	require.Equal(t, pglock.Raise{Base: 1024, Leases: 1, Fences: 1}, raised)
	require.Greater(t, raised.Base<<32, token)
	require.True(t, value[bool](t, in, "SELECT expires_at IS NULL FROM %s.pglock_leases WHERE name = 'n'"))
	require.EqualValues(t, raised.Base<<32+1, take(t, c, "n").Token())
}

// A raise beside grants ends without a deadlock, and leaves no token below it that is granted later.
func TestRaiseEpoch_BesideGrants(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	require.NoError(t, take(t, c, "n").Release(t.Context()))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if l, err := c.TryAcquire(t.Context(), "n"); err == nil {
				_ = l.Release(t.Context()) // It may have been revoked meanwhile.
			}
		}
	}()
	for range 20 {
		raised, err := in.client(t, pglock.Config{}).RaiseEpoch(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, value[int64](t, in, "SELECT token FROM %s.job_fences WHERE name = 'n'"), raised.Base<<32)
	}
	close(stop)
	<-stopped
}

// A transaction that passes fences in an order of its own can have a deadlock with a raise, which then is tried again.
func TestRaiseEpoch_OutlivesADeadlock(t *testing.T) {
	t.Parallel()
	in := install(t)
	config := in.pool.Config()
	config.ConnConfig.RuntimeParams["deadlock_timeout"] = "5s"
	raiser := clientOf(t, pgtest.PoolWith(t, config), in.schema, pglock.Config{})
	require.NoError(t, raiser.Check(t.Context()))
	c := in.client(t, pglock.Config{})
	names := []string{"a", "b"}
	for _, name := range names {
		require.NoError(t, take(t, c, name).Release(t.Context()))
	}
	tokens := map[string]int64{}
	for _, name := range names {
		tokens[name] = value[int64](t, in, "SELECT token FROM %s.job_fences WHERE name = $1", name)
	}
	pass := func(tx pgx.Tx, name string) error {
		return fencing.Fence{Name: name, Schema: in.schema}.ShareTx(t.Context(), tx, fencing.Token(tokens[name]))
	}
	tx, err := in.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '30s'") // The other one is the victim.
	require.NoError(t, err)
	require.NoError(t, pass(tx, "b"))
	var pid int
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	done := make(chan error, 1)
	go func() {
		_, err := raiser.RaiseEpoch(t.Context())
		done <- err
	}()
	require.Eventually(t, func() bool {
		return value[bool](t, in, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))", pid)
	}, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, pass(tx, "a"), "after the raise has let go")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
}
