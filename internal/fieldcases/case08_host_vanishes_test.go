package fieldcases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// DistributedLock 230: a host that loses its power keeps a session, and a lock that lives with it, for minutes to hours.

func TestCase08_BlackHoledHolderIsReplacedWithinTheTTL(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.watch(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	const ttl = 3 * time.Second
	const ghost = "ghost of case 8"
	a := p.through(dsn).client(t, pglock.Config{Label: "a", TTL: ttl}, named(ghost))
	lease := take(t, a, "n")
	p.renewedAfter(t, "n", p.now(t))
	b := p.client(t, pglock.Config{Label: "b"})
	granted := waitFor(t, b, "n")

	proxy.Set(faultnet.BlackHole())
	gone := p.now(t) // No renewal gets in after this.
	next := receive(t, granted)
	require.Error(t, lease.Err(), "the old holder's trust ended before the new grant, although nobody could tell it")
	require.Greater(t, next.Token(), lease.Token())
	took := value[time.Time](t, p, "SELECT acquired_at FROM %s.pglock_leases").Sub(gone)
	require.LessOrEqual(t, took, ttl+2*time.Second)
	require.GreaterOrEqual(t, value[int](t, p, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", ghost), 1,
		"the server has not noticed anything: liveness comes from the TTL")

	require.Equal(t, pglock.LostUnreachable, lost(t, lease).Reason)
	proxy.Set(faultnet.Pass())
	require.ErrorIs(t, lease.Release(t.Context()), pglock.ErrLost)
	require.NoError(t, next.Err())
	tx, err := p.admin.Begin(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, lease.AdvanceTx(t.Context(), tx), fencing.ErrStale)
	require.NoError(t, tx.Rollback(t.Context()))
	p.inTurn(t)
}
