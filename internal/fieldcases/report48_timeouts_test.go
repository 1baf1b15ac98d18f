package fieldcases_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// Report 48: a lock_timeout set for safety crashed all servers that waited for the lock.

func TestReport48_TimeoutsOfTheServerDoNotMatter(t *testing.T) {
	t.Parallel()
	p := install(t)
	hardened := func(c *pgxpool.Config) {
		for name, value := range map[string]string{
			"lock_timeout": "100ms", "statement_timeout": "500ms", "idle_in_transaction_session_timeout": "500ms",
		} {
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
	config := pglock.Config{TTL: 8 * time.Second, RenewInterval: 300 * time.Millisecond, PollInterval: 100 * time.Millisecond}
	holder, waiter := p.client(t, config, hardened), p.client(t, config, hardened)
	lease := take(t, holder, "n")
	began := p.now(t)
	granted := waitFor(t, waiter, "n")
	p.renewedAfter(t, "n", began.Add(1500*time.Millisecond)) // Longer than each of the timeouts.
	require.NoError(t, lease.Release(t.Context()))

	next := receive(t, granted)
	began = p.now(t)
	p.renewedAfter(t, "n", began.Add(1500*time.Millisecond))
	require.NoError(t, next.Err())
	require.NoError(t, next.Release(t.Context()))
}

// Report 49: a renewal in flight revived a lock that was just released.
func TestReport49_RenewalInFlightRevivesNothing(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.watch(t)
	config := pglock.Config{TTL: 10 * time.Second, RenewInterval: time.Millisecond}
	var group sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		c := p.client(t, config)
		group.Go(func() {
			for range 200 {
				lease, err := c.TryAcquire(t.Context(), name)
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				var free bool
				err = p.admin.QueryRow(t.Context(), p.sql("SELECT expires_at IS NULL FROM %s.pglock_leases WHERE name = $1"), name).Scan(&free)
				if err != nil || !free {
					t.Errorf("free: %v, %v", free, err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, 400, p.terms(t, ""))
	require.Zero(t, value[int](t, p, `
		SELECT count(*) FROM (
			SELECT expires_at, lag(expires_at) OVER w AS before, token, lag(token) OVER w AS token_before
			FROM %s.versions WINDOW w AS (PARTITION BY name ORDER BY seq)
		) AS v
		WHERE token = token_before AND before IS NULL AND expires_at IS NOT NULL`), "no released row came to life")
}

// Report 82: releasing after the connection had been closed underneath threw a hundred errors a day for work that had gone well.
func TestReport82_ReleaseOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	p := install(t)
	const session = "holder of report 82"
	c := p.client(t, pglock.Config{TTL: 30 * time.Second}, named(session+" in "+p.schema[:8]))
	for range 5 {
		lease := take(t, c, "n")
		require.NotZero(t, value[int](t, p, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1",
			session+" in "+p.schema[:8]))
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, lease.Release(t.Context()), "again")
		require.True(t, value[bool](t, p, "SELECT expires_at IS NULL FROM %s.pglock_leases"))
	}
}

// Report 88: each clean stop logged an error about a cancelled context.
func TestReport88_CleanStopsLogNothing(t *testing.T) {
	t.Parallel()
	p := install(t)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for range 50 {
		c := p.client(t, pglock.Config{TTL: 10 * time.Second, RenewInterval: time.Millisecond, Logger: logger})
		lease := take(t, c, "n")
		if lease.Token()%2 == 0 {
			require.NoError(t, lease.Release(t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // As it is when a program ends.
		require.NoError(t, c.Close(ctx))
	}
	require.Empty(t, log.String())
}
