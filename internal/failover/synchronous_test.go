package failover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// newSynchronousPair is a pair whose primary confirms a commit when the standby has it.
func newSynchronousPair(t testing.TB) pair {
	t.Helper()
	p := newPair(t)
	// Not from the start: the tables would wait for a standby.
	run(t, p.primary.DSN(), "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	yes(t, p.primary.DSN(), "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
	return p
}

func (p pair) standbyDown(t testing.TB) {
	t.Helper()
	require.NoError(t, p.standby.CatchUp(t.Context(), p.primary))
	require.NoError(t, p.standby.Stop(pgserver.Immediate))
	yes(t, p.primary.DSN(), "SELECT count(*) = 0 FROM pg_stat_replication")
}

// waits is true while a session of that name waits for the standby.
const waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = $1"

func TestSynchronous_NoAcknowledgedGrantIsLost(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var got []*pglock.Lease
	var group sync.WaitGroup
	for i := range 4 {
		c := client(t, p.dsn(t, readWrite), lasting)
		group.Go(func() {
			for n := 0; ; n++ {
				lease, err := c.Acquire(ctx, fmt.Sprintf("%d of %d", n, i))
				if errors.Is(err, context.Canceled) {
					return
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				mu.Lock()
				got = append(got, lease)
				mu.Unlock()
			}
		})
	}
	soon(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 200
	})
	require.NoError(t, p.primary.Kill()) // In the middle of grants.
	cancel()
	group.Wait()
	require.NoError(t, p.standby.Promote(t.Context()))

	t.Logf("%d grants", len(got))
	var names []string
	var tokens []int64
	for _, lease := range got {
		names, tokens = append(names, lease.Name()), append(tokens, int64(lease.Token()))
	}
	require.Equal(t, len(got), ask[int](t, p.standby.DSN(), `
		SELECT count(*)
		FROM unnest($1::text[], $2::bigint[]) AS acknowledged (name, token)
		JOIN pglock_leases USING (name, token)
		JOIN job_fences USING (name, token)
		WHERE expires_at > clock_timestamp()`, names, tokens))
	promoted := ask[string](t, p.standby.DSN(), "SELECT clock_timestamp()::text")
	yes(t, p.standby.DSN(), "SELECT count(*) = $2 FROM pglock_leases WHERE renewed_at > $1::text::timestamptz", promoted, len(got))
	for _, lease := range got {
		require.NoError(t, lease.Err(), lease.Name())
	}
}

// The end of a term loses nothing if it is lost, so it waits for nobody.
func TestSynchronous_AReleaseDoesNotWait(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	c := client(t, p.dsn(t, readWrite), lasting)
	lease := take(t, c, "n")
	p.standbyDown(t)
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, 1, ask[int](t, p.primary.DSN(), "SELECT count(*) FROM pglock_leases WHERE expires_at IS NULL"))
	require.NoError(t, p.standby.Start())
	require.EqualValues(t, 2, takeSoon(t, c, "n").Token())
}

// Renewals wait for the standby as grants do: a lease lives through an outage that is shorter than its trust.
func TestSynchronous_RenewalsWaitForTheStandby(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	config, seen := told(lasting)
	config.RequestTimeout = time.Second
	keeper := client(t, p.dsn(t, readWrite), config)
	kept := take(t, keeper, "kept")
	short := pglock.Config{TTL: 3 * time.Second, RenewInterval: 100 * time.Millisecond, RequestTimeout: time.Second}
	over := take(t, client(t, p.dsn(t, readWrite), short), "over")
	p.standbyDown(t)

	soon(t, func() bool { return seen.count(pglock.EventRenewalLate) > 0 })
	loss := lost(t, over)
	require.Equal(t, pglock.LostUnreachable, loss.Reason, "nobody could be asked: %v", loss)
	require.NoError(t, kept.Err())

	require.NoError(t, p.standby.Start())
	next := takeSoon(t, keeper, "over") // Renewals that were not acknowledged may have moved the expiry: at most by the TTL.
	require.Greater(t, next.Token(), over.Token())
	back := ask[string](t, p.primary.DSN(), "SELECT clock_timestamp()::text")
	yes(t, p.standby.DSN(), "SELECT renewed_at > $1::text::timestamptz FROM pglock_leases WHERE name = 'kept' AND token = $2",
		back, kept.Token())
	require.NoError(t, kept.Err())
}

// An operator who ends the wait with pg_cancel_backend has the server acknowledge what the standby does not have. The client
// cannot tell, and the failover loses the grant; the token is still not repeated.
func TestSynchronous_AWaitEndedByAnOperatorIsAcknowledged(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	c := client(t, p.dsn(t, readWrite+"&application_name=asks"), lasting)
	require.NoError(t, take(t, c, "first").Release(t.Context()))
	p.standbyDown(t)
	granted := waitFor(t, c, "n")
	yes(t, p.primary.DSN(), waits, "asks")
	run(t, p.primary.DSN(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	lease := receive(t, granted)

	require.NoError(t, p.primary.Kill())
	require.NoError(t, p.standby.Start())
	require.NoError(t, p.standby.Promote(t.Context()))
	require.Equal(t, pglock.LostDeleted, lost(t, lease).Reason)
	above(t, p.standby.DSN(), "n", lease.Token())
}
