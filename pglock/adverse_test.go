package pglock_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// metered is a client whose pool, and whose own connections, are counted.
func metered(t *testing.T, isolation string, config pglock.Config) (installation, *pglock.Client, *meter) {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	pc, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	m := &meter{}
	pc.ConnConfig.Tracer = m
	pc.ConnConfig.DialFunc = m.dial
	pc.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
	pool := pgtest.PoolWith(t, pc)
	return installation{dsn: dsn, schema: schema, pool: pgtest.Pool(t, dsn)}, clientOf(t, pool, schema, config), m
}

// A grant that a crash forgets would be granted again: it waits for the disk, whatever the server's default is.
func TestAcquire_IsDurableWithAsynchronousCommits(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, map[string]string{
		"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "autovacuum": "off",
	})
	in := installOn(t, server.DSN())
	c := in.client(t, pglock.Config{})
	for range 3 {
		require.NoError(t, take(t, c, "n").Release(t.Context()))
	}
	held := take(t, c, "n")
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start())
	in.pool.Reset()
	_, err := in.client(t, pglock.Config{}).TryAcquire(t.Context(), "n")
	var refused *pglock.HeldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, held.Token(), refused.Token, "the grant is there after the crash")
	require.NoError(t, held.Release(t.Context()))
}

// Where the default isolation is another, each statement says its own, in the same round trip: no transaction is left open
// on the server when this process stops between two of them.
func TestClient_PinnedStatementsAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	_, c, m := metered(t, "serializable", pglock.Config{})
	require.NoError(t, take(t, c, "n").Release(t.Context()))
	require.NoError(t, take(t, c, "n").Release(t.Context()))
	before := m.writes.Load()
	l := take(t, c, "n")
	require.EqualValues(t, 1, m.writes.Load()-before)
	require.NoError(t, l.Release(t.Context()))
	require.EqualValues(t, 2, m.writes.Load()-before)
}

// The connection for renewals is kept when a server answers, whatever it answers: another may not be had.
func TestClient_LockedRowDoesNotCostTheConnection(t *testing.T) {
	t.Parallel()
	in, c, m := metered(t, "read committed", brisk)
	locked := take(t, c, "locked")
	tx, err := in.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+quoted(in.schema)+".pglock_leases FOR UPDATE")
	require.NoError(t, err)
	dials, statements := m.dials.Load(), m.statements.Load()
	require.Eventually(t, func() bool { return m.statements.Load() > statements+10 }, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, dials, m.dials.Load())
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, locked.Err())
}

// An operator may hold a name for good by hand. Waiters say so and do not ask without a pause.
func TestAcquire_FarExpiryIsHeld(t *testing.T) {
	t.Parallel()
	in, c, m := metered(t, "read committed", pglock.Config{PollInterval: 100 * time.Millisecond})
	require.NoError(t, take(t, c, "n").Release(t.Context()))
	in.exec(t, "UPDATE %s.pglock_leases SET expires_at = '9999-12-31'")
	_, err := c.TryAcquire(t.Context(), "n")
	var held *pglock.HeldError
	require.ErrorAs(t, err, &held)
	require.Greater(t, held.TimeLeft, 24*time.Hour)
	before := m.statements.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = c.Acquire(ctx, "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	require.Less(t, m.statements.Load()-before, int64(20))
}

// A token that somebody wrote into a fence by hand spoils that name, says so, and spoils no other.
func TestAcquire_TokenOutOfRangeIsSaid(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	l := take(t, c, "n")
	require.NoError(t, pgx.BeginFunc(t.Context(), in.pool, func(tx pgx.Tx) error {
		return l.Fence().AdvanceTx(t.Context(), tx, math.MaxInt64)
	}))
	require.NoError(t, l.Release(t.Context()))
	_, err := c.TryAcquire(t.Context(), "n")
	require.ErrorContains(t, err, "written by hand")
	in.exec(t, "UPDATE %s.pglock_epochs SET system_identifier = 42") // As after a restore into another cluster.
	require.EqualValues(t, 1024<<32+1, take(t, c, "m").Token())
}

func TestClient_CheckRefusesAReadOnlyServer(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	c := clientOf(t, pgtest.PoolWith(t, config), schema, pglock.Config{})
	err = c.Check(t.Context())
	require.ErrorContains(t, err, "read-only")
	require.ErrorContains(t, err, "target_session_attrs=read-write")
}

// Whatever was granted while Close ran is not held after it.
func TestClient_CloseBesideAcquireLeavesNoLease(t *testing.T) {
	t.Parallel()
	in := install(t)
	for range 40 {
		c, err := pglock.New(in.pool, pglock.Config{Schema: in.schema})
		require.NoError(t, err)
		require.NoError(t, c.Check(t.Context()))
		var got atomic.Pointer[pglock.Lease]
		var group sync.WaitGroup
		group.Go(func() {
			if l, err := c.TryAcquire(t.Context(), "n"); err == nil {
				got.Store(l)
			}
		})
		require.NoError(t, c.Close(t.Context()))
		group.Wait()
		if l := got.Load(); l != nil {
			require.ErrorIs(t, l.Err(), pglock.ErrReleased)
		}
	}
	require.Eventually(t, func() bool {
		return value[int](t, in, "SELECT count(*) FROM %s.pglock_leases WHERE expires_at IS NOT NULL") == 0
	}, 10*time.Second, 10*time.Millisecond)
}
