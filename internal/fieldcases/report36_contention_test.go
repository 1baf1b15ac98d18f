package fieldcases_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// Report 36: with many clients on one name, acquire and release failed with 40001 or 40P01 instead of waiting.

func TestReport36_ContentionUnderSerializableIsNoError(t *testing.T) {
	t.Parallel()
	const clients, load = 50, 4 * time.Second
	p := install(t)
	p.watch(t)
	p.exec(t, "CREATE TABLE %s.counter AS SELECT 0 AS n")
	var sections, losses atomic.Int64
	config := pglock.Config{TTL: 30 * time.Second, PollInterval: 100 * time.Millisecond, OnEvent: func(e pglock.Event) {
		if e.Kind == pglock.EventLost {
			losses.Add(1)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), load)
	defer cancel()
	var group sync.WaitGroup
	for range clients {
		c := p.client(t, config, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		})
		group.Go(func() {
			for ctx.Err() == nil {
				err := c.Do(ctx, "n", func(context.Context, *pglock.Lease) error {
					// Read, then write: only the lease keeps another from writing in between.
					var n int
					if err := p.admin.QueryRow(t.Context(), p.sql("SELECT n FROM %s.counter")).Scan(&n); err != nil {
						return err
					}
					_, err := p.admin.Exec(t.Context(), p.sql("UPDATE %s.counter SET n = $1"), n+1)
					return err
				})
				switch {
				case err == nil:
					sections.Add(1)
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("do: %v", err)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d sections", sections.Load())
	require.EqualValues(t, sections.Load(), value[int](t, p, "SELECT n FROM %s.counter"))
	require.Greater(t, sections.Load(), int64(3))
	require.Zero(t, losses.Load())
	p.inTurn(t)
}
