package fieldcases_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// Report 8: two threads of one process both got the lock, because they were handed the same pooled connection and session locks
// are re-entrant.

func TestReport08_WorkersOfOneProcessExcludeEachOther(t *testing.T) {
	t.Parallel()
	for _, size := range []int32{1, 10} {
		t.Run(fmt.Sprint("pool of ", size), func(t *testing.T) {
			t.Parallel()
			p := install(t)
			p.watch(t)
			c := p.client(t, pglock.Config{TTL: 30 * time.Second, PollInterval: 10 * time.Millisecond},
				func(c *pgxpool.Config) { c.MaxConns = size })
			var inside believers
			var workers sync.WaitGroup
			for range 20 {
				workers.Go(func() {
					for range 2 {
						err := c.Do(t.Context(), "n", func(ctx context.Context, lease *pglock.Lease) error {
							defer inside.enter(t, lease)()
							if _, err := c.TryAcquire(ctx, "n"); err == nil {
								t.Error("granted twice")
							}
							return nil
						})
						if err != nil {
							t.Errorf("do: %v", err)
						}
					}
				})
			}
			workers.Wait()
			require.Equal(t, 40, p.terms(t, "n"))
			p.inTurn(t)

			lease := take(t, c, "n")
			require.Equal(t, lease.Token(), held(t, c, "n").Token, "a client's own lease is no exception")
		})
	}
}
