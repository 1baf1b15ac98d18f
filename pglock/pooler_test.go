package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// pooled is an installation behind PgBouncer in transaction mode, on two server connections, with more clients than those.
func pooled(t *testing.T, mode pgx.QueryExecMode) (through, direct installation) {
	t.Helper()
	direct = install(t)
	pooler := pgtest.PgBouncer(t, direct.dsn, pgserver.BouncerOptions{PoolSize: 2})
	config, err := pgxpool.ParseConfig(pooler.DSN())
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = mode
	config.MaxConns = 10
	return installation{dsn: pooler.DSN(), schema: direct.schema, pool: pgtest.PoolWith(t, config)}, direct
}

func TestClient_WorksBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			in, direct := pooled(t, mode)
			config := pglock.Config{TTL: 2 * time.Second, PollInterval: 10 * time.Millisecond}
			held := take(t, in.client(t, config), "held")
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var mu sync.Mutex
			var group sync.WaitGroup
			cycles := 0
			for i := range 10 {
				c := in.client(t, config)
				group.Go(func() {
					for ctx.Err() == nil {
						err := c.Do(ctx, fmt.Sprint("n", i%2), func(ctx context.Context, l *pglock.Lease) error {
							mu.Lock()
							defer mu.Unlock()
							cycles++
							return pgx.BeginFunc(ctx, in.pool, func(tx pgx.Tx) error { return l.AdvanceTx(ctx, tx) })
						})
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			require.Greater(t, cycles, 10)
			require.NoError(t, held.Err())
			require.Zero(t, value[int](t, direct, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid IN "+
				"(SELECT pid FROM pg_stat_activity WHERE state = 'idle')"), "nothing is left in a session")
		})
	}
}

// The modes that a pooler without prepared statements breaks say which setting helps.
func TestClient_SaysWhichModeAPoolerNeeds(t *testing.T) {
	t.Parallel()
	in, _ := pooled(t, pgx.QueryExecModeCacheStatement)
	c := in.client(t, pglock.Config{TTL: 10 * time.Second})
	// Two connections prepare one name on one session sooner or later: what is certain is that it happens, not when.
	require.Eventually(t, func() bool {
		var group sync.WaitGroup
		var mu sync.Mutex
		said := false
		for i := range 10 {
			group.Go(func() {
				l, err := c.TryAcquire(t.Context(), fmt.Sprint("n", i))
				if l != nil {
					_ = l.Release(t.Context())
				}
				mu.Lock()
				defer mu.Unlock()
				said = said || err != nil && contains(err.Error(), "DefaultQueryExecMode", "cache_describe")
			})
		}
		group.Wait()
		return said
	}, 20*time.Second, time.Millisecond)
}
