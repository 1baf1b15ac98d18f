package fieldcases_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// Report 28: the context of acquire governed the heartbeat too, and a grant whose reply was lost was kept alive by nobody's
// handle. Report 43: a waiter was handed the lock after its own lease had run out.

func TestReport28_EndOfTheContextOfAcquireEndsNothing(t *testing.T) {
	t.Parallel()
	p := install(t)
	c := p.client(t, pglock.Config{TTL: 3 * time.Second, RenewInterval: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	lease, err := c.Acquire(ctx, "n")
	require.NoError(t, err)
	acquired := p.now(t)
	cancel()
	p.renewedAfter(t, "n", acquired.Add(4*time.Second)) // Beyond the TTL.
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
}

// unanswered are ways to lose the reply to a statement that committed.
var unanswered = map[string]faultnet.Mode{
	"dropped":               faultnet.DropReplies(),
	"later than the TTL":    {Replies: faultnet.Late(8 * time.Second)},
	"held until it is over": {Replies: faultnet.Held()},
}

func TestReport28_LostReplyOfATryLeavesNothingAlive(t *testing.T) {
	t.Parallel()
	for name, mode := range unanswered {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := install(t)
			p.watch(t)
			proxy, dsn := faultnet.ListenDSN(t, p.dsn)
			c := p.through(dsn).client(t, pglock.Config{TTL: 5 * time.Second, RenewInterval: 100 * time.Millisecond,
				RequestTimeout: 700 * time.Millisecond})
			require.NoError(t, take(t, c, "another").Release(t.Context()), "all connections are open")

			proxy.Set(mode)
			lease, err := c.TryAcquire(t.Context(), "n")
			require.Nil(t, lease)
			require.Error(t, err)
			require.NotErrorIs(t, err, pglock.ErrNotAcquired)
			require.Equal(t, 1, p.terms(t, "n"), "the grant exists, and nobody was told")
			proxy.Set(faultnet.Pass())

			soon(t, func() bool {
				return value[bool](t, p, "SELECT expires_at IS NULL OR expires_at <= clock_timestamp() FROM %s.pglock_leases WHERE name = 'n'")
			}, "the row is given back or expires")
			require.Zero(t, value[int](t, p, "SELECT count(*) FROM %s.pglock_leases WHERE name = 'n' AND renewed_at <> acquired_at"),
				"it was never renewed")
			require.EqualValues(t, 2, take(t, p.client(t, steady), "n").Token())
		})
	}
}

func TestReport28_LostReplyOfAWaitFindsItsOwnGrant(t *testing.T) {
	t.Parallel()
	for name, mode := range unanswered {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := install(t)
			p.watch(t)
			proxy, dsn := faultnet.ListenDSN(t, p.dsn)
			c := p.through(dsn).client(t, pglock.Config{TTL: 20 * time.Second, RequestTimeout: 500 * time.Millisecond})
			require.NoError(t, take(t, c, "another").Release(t.Context()), "all connections are open")

			proxy.Set(mode)
			granted := waitFor(t, c, "n")
			soon(t, func() bool { return p.terms(t, "n") == 1 }, "the grant exists")
			soon(t, func() bool { return proxy.Accepted() > 2 }, "the waiter has given up its connection and asks on another")
			require.Empty(t, granted)
			proxy.Set(faultnet.Pass())

			lease := receive(t, granted)
			require.NoError(t, lease.Err())
			require.Equal(t, 1, p.terms(t, "n"), "it is the grant of the lost reply")
			require.EqualValues(t, lease.Token(), value[int64](t, p, "SELECT token FROM %s.pglock_leases WHERE name = 'n'"))
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

func TestReport28_LostReplyOfARenewalKeepsTheLease(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.watch(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	c := p.through(dsn).client(t, pglock.Config{TTL: 15 * time.Second, RenewInterval: 200 * time.Millisecond, RequestTimeout: 2 * time.Second})
	lease := take(t, c, "n")
	p.renewedAfter(t, "n", p.now(t))
	proxy.Set(faultnet.DropReplies())
	soon(t, func() bool { return lease.TimeLeft() < 11*time.Second }, "renewals go unanswered")
	proxy.Set(faultnet.Pass())
	soon(t, func() bool { return lease.TimeLeft() > 12*time.Second }, "the next one is answered")
	require.NoError(t, lease.Err())
	require.Equal(t, 1, p.terms(t, "n"))
	require.NoError(t, lease.Release(t.Context()))
}
