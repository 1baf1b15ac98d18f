package fieldcases_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// Report 39: projects in separate schemas of one database blocked each other through one global key.

func TestReport39_SchemasAndNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	one, two := install(t), install(t)
	a, b := take(t, one.client(t, steady), "nightly"), take(t, two.client(t, steady), "nightly")
	require.NoError(t, a.Err())
	require.NoError(t, b.Err())

	c := one.client(t, steady)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 100 {
				// Neither held nor busy: no two names share a key.
				if _, err := c.TryAcquire(t.Context(), fmt.Sprint(worker, "/", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, 1, value[int](t, one, "SELECT count(*) FROM %s.pglock_leases WHERE expires_at IS NOT NULL"))
}

// Report 40: during a rolling change of the configuration a replica applied its own short duration to the old holder's record.
func TestReport40_ShorterTTLStealsNothing(t *testing.T) {
	t.Parallel()
	p := install(t)
	lease := take(t, p.client(t, pglock.Config{TTL: time.Hour}), "n")
	b := p.client(t, pglock.Config{
		TTL: 2 * time.Second, RenewInterval: 100 * time.Millisecond, RequestTimeout: 1500 * time.Millisecond, PollInterval: 20 * time.Millisecond,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := b.Acquire(ctx, "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	var heldErr *pglock.HeldError
	require.ErrorAs(t, err, &heldErr)
	require.Greater(t, heldErr.TimeLeft, 50*time.Minute)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, lease.Token()+1, takeSoon(t, b, "n").Token())
}
