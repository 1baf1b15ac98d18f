package fieldcases_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// skypilot PR 10251: holders sat idle in transaction, and a hardening setting silently freed their locks in mid-work.

func TestCase10_HoldersAndWaitersAreNeverIdleInTransaction(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, map[string]string{"idle_in_transaction_session_timeout": "1s"})
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			p := at(t, server.DSN(), pgtest.MigratedOn(t, server.DSN()))
			p.watch(t)
			name := "case 10, " + isolation
			config := pglock.Config{TTL: 2400 * time.Millisecond, PollInterval: 100 * time.Millisecond}
			isolated := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation }
			a, b := p.client(t, config, named(name), isolated), p.client(t, config, named(name), isolated)
			leases := make([]*pglock.Lease, 20)
			for i := range leases {
				leases[i] = take(t, a, fmt.Sprint("n", i))
			}
			ctx, stop := context.WithCancel(t.Context())
			var waiters sync.WaitGroup
			for _, lease := range leases {
				waiters.Go(func() {
					_, err := b.Acquire(ctx, lease.Name())
					if ctx.Err() == nil {
						t.Errorf("acquire: %v", err)
					}
				})
			}

			samples, seen := 0, 0
			soon(t, func() bool {
				samples++
				seen += value[int](t, p, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name)
				// A pinned statement takes three round trips, so a session may be in a transaction when it is looked at.
				require.Zero(t, value[int](t, p, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
					AND state LIKE 'idle in transaction%' AND clock_timestamp() > state_change + interval '1 second'`, name))
				// Report 77: nor does a statement last as long as a hold or a wait does.
				require.Zero(t, value[int](t, p, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
					AND state = 'active' AND clock_timestamp() > query_start + interval '4 seconds'`, name))
				return value[bool](t, p, "SELECT bool_and(renewed_at > acquired_at + interval '7 seconds') FROM %s.pglock_leases")
			}, "each lease is held for three TTLs")
			require.Greater(t, seen, samples, "the sessions were seen at all")

			stop()
			waiters.Wait()
			for _, lease := range leases {
				require.NoError(t, lease.Err())
			}
			// Before the release: a waiter's last statement may arrive after it, and is granted for a moment.
			require.Equal(t, len(leases), p.terms(t, ""), "no lease changed hands")
			for _, lease := range leases {
				require.NoError(t, lease.Release(t.Context()))
			}
		})
	}
}
