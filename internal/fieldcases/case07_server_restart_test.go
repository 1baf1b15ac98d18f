package fieldcases_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// good_job 90: a long job runs under a session lock, the server restarts, and another worker takes the job beside it.

func TestCase07_RestartsOfTheServerKeepLeaseAndToken(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	p := installOn(t, server.DSN())
	p.watch(t)
	late := make(chan struct{}, 1000)
	// The TTL has room for a slow start of the server.
	config := pglock.Config{TTL: 15 * time.Second, RenewInterval: 500 * time.Millisecond, PollInterval: 100 * time.Millisecond,
		OnEvent: func(e pglock.Event) {
			if e.Kind == pglock.EventRenewalLate {
				late <- struct{}{}
			}
		}}
	const waiter = "waiter of case 7"
	a, b := p.client(t, config), p.client(t, config, named(waiter))

	var runs atomic.Int64
	started, finish := make(chan *pglock.Lease, 2), make(chan struct{})
	job := func(ctx context.Context, lease *pglock.Lease) error {
		runs.Add(1)
		started <- lease
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	done, second := make(chan error, 1), make(chan error, 1)
	go func() { done <- a.Do(t.Context(), "n", job) }()
	lease := receive(t, started)
	waiting, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { second <- b.Do(waiting, "n", job) }()

	for _, down := range []func() error{
		func() error { return server.Stop(pgserver.Fast) },
		server.Kill,
	} {
		require.NoError(t, down())
		receive(t, late) // The outage is real: renewals have failed.
		require.NoError(t, server.Start())
		p.admin.Reset()
		soon(t, func() bool {
			var renewed bool
			err := p.admin.QueryRow(t.Context(), p.sql("SELECT renewed_at > pg_postmaster_start_time() FROM %s.pglock_leases")).Scan(&renewed)
			return err == nil && renewed
		}, "the lease is renewed after the restart")
		soon(t, func() bool {
			return value[bool](t, p, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND state = 'idle')", waiter)
		}, "the waiter asks again after the restart")
		for len(late) > 0 {
			<-late
		}
	}

	require.NoError(t, lease.Err())
	require.EqualValues(t, 1, runs.Load(), "no second run starts")
	require.Equal(t, 1, p.terms(t, "n"), "one term, one token")
	stop()
	require.ErrorIs(t, receive(t, second), context.Canceled)
	close(finish)
	require.NoError(t, receive(t, done))
}
