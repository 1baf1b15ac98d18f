package fieldcases_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// cirello-io/pglock 40: a single temporary error made the holder give up a valid lease and abort long work.

// outage is what a database that refuses connections looks like: open ones are cut as well.
func outage(proxy *faultnet.Proxy) {
	proxy.Set(faultnet.Refuse())
	proxy.Reset()
}

// waitFor acquires in the background; what comes of it is for the end of the test.
func waitFor(t *testing.T, c *pglock.Client, name string) <-chan *pglock.Lease {
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

func TestCase02_OutageShorterThanTheTTLKeepsTheLease(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.watch(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	late := make(chan pglock.Event, 1000)
	const ttl = 8 * time.Second
	a := p.through(dsn).client(t, pglock.Config{Label: "a", TTL: ttl, RenewInterval: ttl / 4, OnEvent: func(e pglock.Event) {
		if e.Kind == pglock.EventRenewalLate {
			late <- e
		}
	}})
	lease := take(t, a, "n")
	granted := waitFor(t, p.client(t, pglock.Config{Label: "b", PollInterval: 100 * time.Millisecond}), "n")

	outage(proxy)
	soon(t, func() bool { return lease.TimeLeft() < ttl/2 }, "renewals fail for two fifths of the TTL")
	require.NotEmpty(t, late, "the danger is told before the loss")
	require.NoError(t, lease.Err())
	again := p.now(t)
	proxy.Set(faultnet.Pass())

	p.renewedAfter(t, "n", again)
	soon(t, func() bool { return lease.TimeLeft() > ttl/2 })
	require.NoError(t, lease.Err())
	require.Empty(t, granted)
	require.Equal(t, 1, p.terms(t, "n"), "one term, one token")
	require.NoError(t, lease.Release(t.Context()))
}

func TestCase02_OutageLongerThanTheTTLIsALossBeforeTheExpiry(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.watch(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	// The margin is wide, so that a machine under load can still look at the row in time.
	a := p.through(dsn).client(t, pglock.Config{Label: "a", TTL: 5 * time.Second, RenewInterval: 500 * time.Millisecond,
		RequestTimeout: 500 * time.Millisecond, Margin: 2 * time.Second})
	lease := take(t, a, "n")
	p.renewedAfter(t, "n", p.now(t))
	granted := waitFor(t, p.client(t, pglock.Config{Label: "b", PollInterval: 100 * time.Millisecond}), "n")

	outage(proxy)
	why := lost(t, lease)
	require.True(t, value[bool](t, p, "SELECT expires_at > clock_timestamp() FROM %s.pglock_leases"),
		"the loss is told while nobody else can have the name")
	require.Equal(t, pglock.LostUnreachable, why.Reason)
	var connect *pgconn.ConnectError
	require.ErrorAs(t, why, &connect, "with the reason of the last failure")

	next := receive(t, granted)
	require.Equal(t, lease.Token()+1, next.Token())
	proxy.Set(faultnet.Pass())
	require.ErrorIs(t, lease.Release(t.Context()), pglock.ErrLost, "a loss is final")
	require.NoError(t, next.Err())
	p.inTurn(t)
}
