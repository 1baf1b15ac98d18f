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
			config := pglock.Config{TTL: 4 * time.Second, RenewInterval: 250 * time.Millisecond, RequestTimeout: 3 * time.Second, PollInterval: 10 * time.Millisecond}
			held := take(t, in.client(t, config), "held")
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
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

// A mode that the pooler breaks is refused before the first grant, by the first client, with one session or with more: at a
// time when every single statement would still have worked. Package internal/poolers has the other mode and more settings.
func TestClient_RefusesAModeThatAPoolerBreaks(t *testing.T) {
	t.Parallel()
	for _, sessions := range []int{1, 5} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			t.Parallel()
			direct := install(t)
			pooler := pgtest.PgBouncer(t, direct.dsn, pgserver.BouncerOptions{PoolSize: sessions})
			config, err := pgxpool.ParseConfig(pooler.DSN())
			require.NoError(t, err)
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
			c := clientOf(t, pgtest.PoolWith(t, config), direct.schema, pglock.Config{})
			for range 3 { // It is looked at each time.
				require.ErrorContains(t, c.Check(t.Context()), "DefaultQueryExecMode to cache_describe, exec or simple_protocol")
				lease, err := c.TryAcquire(t.Context(), "n")
				require.Nil(t, lease)
				require.ErrorContains(t, err, "default_query_exec_mode=cache_describe")
				lease, err = c.Acquire(t.Context(), "n") // It does not wait for what asking again cannot cure.
				require.Nil(t, lease)
				require.ErrorContains(t, err, "default_query_exec_mode=cache_describe")
			}
			require.Zero(t, value[int](t, direct, "SELECT count(*) FROM %s.pglock_leases"))
		})
	}
}

// Behind a pooler in session mode each client has a session of its own, and every mode works.
func TestClient_TakesEveryModeBehindASessionPooler(t *testing.T) {
	t.Parallel()
	direct := install(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pooler := pgtest.PgBouncer(t, direct.dsn, pgserver.BouncerOptions{Settings: map[string]string{"pool_mode": "session"}})
			config, err := pgxpool.ParseConfig(pooler.DSN())
			require.NoError(t, err)
			config.ConnConfig.DefaultQueryExecMode = mode
			c := clientOf(t, pgtest.PoolWith(t, config), direct.schema, pglock.Config{})
			require.NoError(t, take(t, c, mode.String()).Release(t.Context()))
		})
	}
}
