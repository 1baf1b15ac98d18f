package failover_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// sessions counts the client's sessions on a server.
func sessions(t testing.TB, server *pgserver.Server) int {
	t.Helper()
	return ask[int](t, server.DSN(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'moved'")
}

// A switch-over that leaves the old primary running, and read-only: its sessions stay open, and only an answer tells.
func TestDemoted_ReadOnlyPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := client(t, p.dsn(t, readWrite+"&application_name=moved"), lasting)
	before := busy(t, c, "before")
	require.Greater(t, sessions(t, p.primary), 1, "the pool's, and the one for renewals")
	demote(t, p)

	after := busy(t, c, "after")
	for i := range after {
		require.Greater(t, after[i].Token(), lead)
	}
	soon(t, func() bool {
		require.NoError(t, take(t, c, "again").Release(t.Context())) // A session is left when it is used.
		return sessions(t, p.primary) == 0
	})
	requireMoved(t, p, before)
}

// Without the option the pool goes back to the first host that answers. The error says what is missing; renewals, which go
// over the client's own connection, find the primary all the same.
func TestDemoted_WithoutTheOptionThePoolStays(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	config := lasting
	config.RequestTimeout = time.Second // It asks again for as long, and Close does too.
	c := client(t, p.dsn(t, "application_name=moved"), config)
	before := busy(t, c, "before")
	demote(t, p)

	soon(t, func() bool {
		lease, err := c.TryAcquire(t.Context(), "again")
		require.Nil(t, lease)
		return readOnly(err)
	})
	requireMoved(t, p, before)
}

// A switch-over after which the old primary comes back as a standby of the new one, first in the list of hosts.
func TestDemoted_RestartedAsAStandbyIsLeft(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := client(t, p.dsn(t, readWrite+"&application_name=moved"), lasting)
	before := busy(t, c, "before")
	becomeStandby(t, p.primary, p.standby.DSN())
	require.NoError(t, p.primary.Stop(pgserver.Fast)) // It sends all it has first.
	require.NoError(t, p.standby.Promote(t.Context()))
	require.NoError(t, p.primary.Start())
	require.NoError(t, p.primary.CatchUp(t.Context(), p.standby))

	lease := takeSoon(t, c, "again")
	require.EqualValues(t, lead+1, lease.Token())
	requireMoved(t, p, before)
	for _, l := range busy(t, c, "after") {
		require.Greater(t, l.Token(), lead)
	}
	soon(t, func() bool { return sessions(t, p.primary) == 0 }) // The pool looks in, and goes on to the next host.

	// And back: the tokens go on.
	again := pair{p.standby, p.primary}
	again.part(t)
	missed := grants(t, again.primary.DSN(), "n", 3)
	again.killAndPromote(t)
	require.Greater(t, above(t, again.standby.DSN(), "n", missed), 2*lead)
}

// busy uses several connections of the pool at once and keeps the leases.
func busy(t testing.TB, c *pglock.Client, when string) []*pglock.Lease {
	t.Helper()
	leases := make([]*pglock.Lease, 4)
	var waiting []<-chan *pglock.Lease
	for i := range leases {
		waiting = append(waiting, waitFor(t, c, fmt.Sprint(when, i)))
	}
	for i := range leases {
		leases[i] = receive(t, waiting[i])
	}
	return leases
}

// demote promotes the standby and makes the old primary read-only.
func demote(t testing.TB, p pair) {
	t.Helper()
	require.NoError(t, p.standby.CatchUp(t.Context(), p.primary))
	run(t, p.primary.DSN(), "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	require.NoError(t, p.standby.Promote(t.Context()))
}

// requireMoved wants the leases held and renewed on the new primary.
func requireMoved(t testing.TB, p pair, leases []*pglock.Lease) {
	t.Helper()
	now := ask[string](t, p.standby.DSN(), "SELECT clock_timestamp()::text")
	for _, l := range leases {
		yes(t, p.standby.DSN(), "SELECT renewed_at > $1::text::timestamptz FROM pglock_leases WHERE name = $2 AND token = $3",
			now, l.Name(), l.Token())
		require.NoError(t, l.Err())
		require.NoError(t, write(t, pgtest.Pool(t, p.standby.DSN()), l.ShareTx))
	}
}

// becomeStandby has the next start of a server follow another one.
func becomeStandby(t testing.TB, server *pgserver.Server, primary string) {
	t.Helper()
	run(t, server.DSN(), "ALTER SYSTEM SET primary_conninfo = '"+conninfo(t, primary)+"'",
		"COPY (SELECT) TO '"+dataOf(t, server)+"/standby.signal'") // The server's own file, so that it can remove it.
}
