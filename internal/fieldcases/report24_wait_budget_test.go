package fieldcases_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// Report 24: a lock timeout was accepted and ignored. Report 70: the TTL was the longest wait as well, and the end of the wait was
// an error of the context instead of "not obtained".

// waits returns what acquire with this budget returns, and requires that it kept to it. Zero asks once.
func waits(t *testing.T, c *pglock.Client, budget time.Duration) error {
	t.Helper()
	const room = 5 * time.Second // For a busy machine; a wait without a bound is longer.
	began := time.Now()
	var lease *pglock.Lease
	var err error
	if budget == 0 {
		lease, err = c.TryAcquire(t.Context(), "n")
	} else {
		ctx, cancel := context.WithTimeout(t.Context(), budget)
		defer cancel()
		lease, err = c.Acquire(ctx, "n")
		require.GreaterOrEqual(t, time.Since(began), budget)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Nil(t, lease)
	require.Less(t, time.Since(began), budget+room)
	return err
}

func TestReport24_TheBudgetBoundsTheWait(t *testing.T) {
	t.Parallel()
	p := install(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	take(t, p.client(t, pglock.Config{Label: "the holder", TTL: time.Hour}), "n")
	budgets := []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond}
	// The TTL of the waiter is shorter than the longest wait: the two have nothing to do with each other.
	config := pglock.Config{TTL: time.Second, RequestTimeout: 200 * time.Millisecond}

	t.Run("held", func(t *testing.T) {
		// Long enough for an answer on a busy machine, in each case.
		c := p.client(t, pglock.Config{
			TTL: 3500 * time.Millisecond, RenewInterval: 100 * time.Millisecond, RequestTimeout: 3 * time.Second,
		})
		for _, budget := range []time.Duration{0, 2 * time.Second, 4 * time.Second} {
			err := waits(t, c, budget)
			require.ErrorIs(t, err, pglock.ErrNotAcquired)
			require.ErrorContains(t, err, "the holder")
		}
	})
	for name, fault := range map[string]func(){
		"refused":    func() { outage(proxy) },
		"black hole": func() { proxy.Set(faultnet.BlackHole()) },
	} {
		t.Run(name, func(t *testing.T) {
			proxy.Set(faultnet.Pass())
			connected, fresh := p.through(dsn).client(t, config), p.through(dsn).client(t, config)
			soon(t, func() bool { return connected.Check(t.Context()) == nil })
			fault()
			for _, c := range []*pglock.Client{connected, fresh} {
				for _, budget := range budgets {
					require.NotErrorIs(t, waits(t, c, budget), pglock.ErrNotAcquired, "nobody said that somebody has it")
				}
			}
		})
	}
}
