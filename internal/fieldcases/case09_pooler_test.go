package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// authentik 23876: the lock was taken on one backend and the unlock ran on another; every pod waited for it.

// describing is how pgx has to work behind a pooler that knows no prepared statements.
func describing(c *pgxpool.Config) {
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
}

func TestCase09_TransactionPoolerKeepsNoLockAndStrandsNobody(t *testing.T) {
	t.Parallel()
	const clients, poolSize, load = 20, 2, 5 * time.Second
	const ttl = 4 * time.Second
	// A server of its own: its advisory locks and sessions are all of this test.
	server := pgtest.Private(t, nil)
	p := installOn(t, server.DSN())
	p.watch(t)
	pooled := p.through(pgtest.PgBouncer(t, server.DSN(), pgserver.BouncerOptions{PoolSize: poolSize, MaxClientConn: 500}).DSN())
	config := pglock.Config{
		TTL: ttl, RenewInterval: 300 * time.Millisecond, RequestTimeout: 3 * time.Second, PollInterval: 50 * time.Millisecond,
	}

	names := []string{"even", "odd"}
	var inside [2]believers
	var cycles atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), load)
	defer cancel()
	var group sync.WaitGroup
	kept := take(t, pooled.client(t, config, describing), "kept") // Renewed beside the load, for longer than its TTL.
	for i := range clients {
		c := pooled.client(t, config, describing)
		group.Go(func() {
			for ctx.Err() == nil {
				err := c.Do(ctx, names[i%2], func(working context.Context, lease *pglock.Lease) error {
					defer inside[i%2].enter(t, lease)()
					var one int
					return p.admin.QueryRow(context.WithoutCancel(working), "SELECT 1 FROM pg_sleep(0.005)").Scan(&one)
				})
				switch {
				case err == nil:
					cycles.Add(1)
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, kept.Err())

	t.Logf("%d cycles", cycles.Load())
	require.Greater(t, cycles.Load(), int64(clients))
	// The end of the load cut statements off, whose sessions end a moment later.
	soon(t, func() bool {
		return value[int](t, p, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
	}, "an advisory lock stays behind")
	soon(t, func() bool {
		return value[int](t, p, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL ($1)",
			backends(t, p)) <= poolSize
	}, "the clients share so few sessions")
	p.inTurn(t)
	// Ten clients of each name were waiting all the time: the longest time in which nobody had it.
	idle := value[float64](t, p, `
		SELECT coalesce(max(extract(epoch FROM acquired_at - before)), 0)::float8
		FROM (
			SELECT seq, token, acquired_at, lag(token) OVER w AS token_before, lag(at) OVER w AS before
			FROM %s.versions WHERE name <> 'kept' WINDOW w AS (PARTITION BY name ORDER BY seq)
		) AS v
		WHERE token <> token_before`)
	require.Less(t, idle, (ttl + time.Second).Seconds())

	for _, name := range names {
		lease := takeSoon(t, pooled.client(t, config, describing), name)
		require.NoError(t, lease.Release(t.Context()), "no waiter is stuck")
	}
	require.NoError(t, kept.Release(t.Context()))
}

// backends are the server processes of the test's own pool.
func backends(t *testing.T, p place) []int32 {
	t.Helper()
	var pids []int32
	conns := p.admin.AcquireAllIdle(t.Context())
	for _, conn := range conns {
		pids = append(pids, int32(conn.Conn().PgConn().PID()))
		conn.Release()
	}
	return pids
}

// A pool whose statements are prepared does not work behind such a pooler. The error has to say so, and nothing may be left.
func TestCase09_PreparedStatementsBehindAPoolerSayWhatToDo(t *testing.T) {
	t.Parallel()
	p := install(t)
	pooled := p.through(pgtest.PgBouncer(t, p.dsn, pgserver.BouncerOptions{PoolSize: 1}).DSN())
	var failure error
	for i := 0; i < 20 && failure == nil; i++ {
		c := pooled.client(t, pglock.Config{})
		lease, err := c.TryAcquire(t.Context(), fmt.Sprint("n", i))
		if err == nil {
			err = lease.Release(t.Context())
		}
		failure = err
	}
	require.ErrorContains(t, failure, "default_query_exec_mode=cache_describe")
}
