package failover_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// The standby misses the last grants, the primary is killed, the standby is promoted. Clients know both hosts and nobody
// tells them anything.
func TestAsync_ClientsFindTheNewPrimary(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"read-write": readWrite, "any host": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			dsn := p.dsn(t, option)
			last := grants(t, dsn, "old", 3)
			config, seen := told(lasting)
			keeper, loser := client(t, dsn, config), client(t, dsn, lasting)
			kept := take(t, keeper, "kept")
			yes(t, p.standby.DSN(), "SELECT renewed_at > acquired_at FROM pglock_leases WHERE name = 'kept'")
			p.part(t)
			older, newer := take(t, loser, "old"), take(t, loser, "new")
			require.Equal(t, last+1, older.Token())
			waiting := waitFor(t, client(t, dsn, lasting), "kept")

			require.NoError(t, p.primary.Kill())
			soon(t, func() bool { return seen.count(pglock.EventRenewalLate) > 0 }, "only the standby is up")
			require.NoError(t, older.Err(), "it is not for a standby to say that a grant is lost")
			require.NoError(t, newer.Err())
			require.NoError(t, p.standby.Promote(t.Context()))

			// What was lost is learnt.
			require.Equal(t, pglock.LostRolledBack, lost(t, older).Reason)
			require.Equal(t, pglock.LostDeleted, lost(t, newer).Reason)

			// What was not lost is kept and renewed under its token.
			promoted := ask[string](t, p.standby.DSN(), "SELECT clock_timestamp()::text")
			yes(t, p.standby.DSN(), "SELECT renewed_at > $1::text::timestamptz FROM pglock_leases WHERE name = 'kept' AND token = $2",
				promoted, kept.Token())
			require.NoError(t, kept.Err())
			pool := pgtest.Pool(t, dsn)
			require.NoError(t, write(t, pool, kept.ShareTx))

			// Before the next grant nobody else writes under the name. The shared form wants the grant, the exclusive one a fence; with
			// one it raises it to the lost token, which the next grant exceeds.
			require.ErrorIs(t, write(t, pool, older.ShareTx), pglock.ErrLost)
			require.ErrorIs(t, write(t, pool, share("old", older.Token())), fencing.ErrNotRaised)
			require.NoError(t, write(t, pool, older.AdvanceTx))
			require.ErrorIs(t, write(t, pool, share("new", newer.Token())), fencing.ErrNoFence)
			require.ErrorIs(t, write(t, pool, newer.AdvanceTx), fencing.ErrNoFence)

			// From the next grant on they are refused.
			for _, lease := range []*pglock.Lease{older, newer} {
				next := take(t, keeper, lease.Name())
				require.Greater(t, next.Token(), lease.Token())
				require.Greater(t, next.Token(), lead)
				require.ErrorIs(t, write(t, pool, lease.AdvanceTx), fencing.ErrStale)
				require.ErrorIs(t, write(t, pool, share(lease.Name(), lease.Token())), fencing.ErrStale)
				require.NoError(t, write(t, pool, next.ShareTx))
				require.ErrorIs(t, lease.Release(t.Context()), pglock.ErrLost)
				require.NoError(t, next.Err(), "the old holder's release is not the new one's")
			}

			// A waiter has waited through it all.
			require.Empty(t, waiting)
			require.NoError(t, kept.Release(t.Context()))
			require.Greater(t, receive(t, waiting).Token(), kept.Token())
		})
	}
}

// While only a standby is up nothing is acquired, and nothing is known: not even that somebody holds a name. The error says
// why, and what to do.
func TestAsync_AStandbyIsNeverRead(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	take(t, client(t, p.primary.DSN(), silent), "held")
	require.NoError(t, take(t, client(t, p.primary.DSN(), silent), "free").Release(t.Context()))
	any, writable := p.dsn(t, ""), p.dsn(t, readWrite)
	warm := client(t, any, lasting)
	require.NoError(t, warm.Check(t.Context()))
	require.NoError(t, p.standby.CatchUp(t.Context(), p.primary))
	require.NoError(t, p.primary.Kill())

	var connect *pgconn.ConnectError
	alone := client(t, p.standby.DSN(), lasting)
	require.True(t, readOnly(alone.Check(t.Context())))
	require.ErrorAs(t, client(t, any, lasting).Check(t.Context()), &connect, "no host for its own connection")
	require.ErrorAs(t, client(t, writable, lasting).Check(t.Context()), &connect)

	var waiting []<-chan *pglock.Lease
	for name, c := range map[string]*pglock.Client{"alone": alone, "any": warm, "writable": client(t, writable, lasting)} {
		for _, wanted := range []string{"held", "free", "new"} {
			said := name == "writable" // pgx does not connect: the error is its own.
			soon(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // It asks again for as long.
				defer cancel()
				lease, err := c.TryAcquire(ctx, wanted)
				require.Nil(t, lease)
				require.NotErrorIs(t, err, pglock.ErrNotAcquired)
				return said || readOnly(err)
			}, "%s, %s", name, wanted)
		}
		waiting = append(waiting, waitFor(t, c, "wanted by "+name))
	}
	require.NoError(t, p.standby.Promote(t.Context()))
	for _, granted := range waiting {
		require.EqualValues(t, lead+1, receive(t, granted).Token())
	}
	held(t, alone, "held")
}

// readOnly is the answer of a server that is not for writing, with what to do about it.
func readOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "25006" || pg.Code == "55000") && strings.Contains(err.Error(), readWrite)
}
