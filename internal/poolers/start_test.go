package poolers

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// refused requires that a client says at its start what to set, and is granted nothing.
func (p place) refused(t testing.TB, c *pglock.Client) {
	t.Helper()
	for range 2 {
		require.ErrorContains(t, c.Check(t.Context()), "default_query_exec_mode=cache_describe")
		lease, err := c.TryAcquire(t.Context(), "n")
		require.Nil(t, lease)
		require.ErrorContains(t, err, "DefaultQueryExecMode to cache_describe, exec or simple_protocol")
		if p.mode == pgx.QueryExecModeCacheStatement {
			require.ErrorContains(t, err, "max_prepared_statements")
		}
	}
	require.Zero(t, value[int](t, p, "SELECT count(*) FROM %s.pglock_leases"))
}

// With one client and one session each single statement of these modes still works, and with more sessions most do. They are
// refused all the same, before anything is granted.
func TestTransactionMode_RefusesAModeThatItBreaks(t *testing.T) {
	t.Parallel()
	for _, k := range transactionKinds(t) {
		for _, mode := range allModes {
			if k.works(mode) {
				continue
			}
			for name, settings := range map[string]map[string]string{
				"one session":         {"default_pool_size": "1"},
				"many sessions":       {"default_pool_size": "20"},
				"sessions in turn":    {"default_pool_size": "5", "server_round_robin": "1"},
				"sessions are reset":  {"default_pool_size": "5", "server_reset_query_always": "1"},
				"sessions from start": {"default_pool_size": "5", "min_pool_size": "5"},
				"statement mode":      {"pool_mode": "statement"},
			} {
				if name == "statement mode" && k.tracking {
					continue // Not carried there.
				}
				t.Run(k.name+"/"+mode.String()+"/"+name, func(t *testing.T) {
					t.Parallel()
					p := install(t, mode, k.settings, settings)
					// There may be sessions already, in use in turn, and more than the first.
					warm := place.pool(place{pooler: p.pooler, mode: pgx.QueryExecModeExec}, t)
					for range 3 {
						_, err := warm.Exec(t.Context(), "SELECT 1")
						require.NoError(t, err)
						p.refused(t, p.client(t, pglock.Config{}))
					}
				})
			}
		}
	}
}

// So it is while others use the pooler.
func TestTransactionMode_RefusesAModeThatItBreaksUnderLoad(t *testing.T) {
	t.Parallel()
	const workers, starts = 6, 10
	for _, k := range transactionKinds(t) {
		for _, mode := range allModes {
			if k.works(mode) {
				continue
			}
			t.Run(k.name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				p := install(t, mode, k.settings, map[string]string{"default_pool_size": "3"})
				other := place{pooler: p.pooler, mode: pgx.QueryExecModeExec}
				ctx, cancel := context.WithCancel(t.Context())
				var load sync.WaitGroup
				defer load.Wait()
				defer cancel()
				for range workers {
					pool := other.pool(t)
					load.Go(func() {
						for ctx.Err() == nil {
							_, _ = pool.Exec(ctx, "SELECT pg_sleep(0.002 * random())")
						}
					})
				}
				for range starts {
					p.refused(t, p.client(t, pglock.Config{}))
				}
			})
		}
	}
}

// Why it is looked at the start: without that a client works for as long as it is alone.
func TestControl_CacheStatementWorksUntilASecondClientComes(t *testing.T) {
	t.Parallel()
	k := transactionKinds(t)[0]
	p := install(t, pgx.QueryExecModeCacheStatement, k.settings, map[string]string{"default_pool_size": "20"})
	first, second := p.conn(t), p.conn(t)
	for i := range 50 {
		_, err := first.Exec(t.Context(), "SELECT $1::int", i)
		require.NoError(t, err)
	}
	_, err := second.Exec(t.Context(), "SELECT $1::int", 1)
	requireState(t, err, "42P05")
	// And when the pool grows, because its one session is taken.
	tx, err := p.conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = first.Exec(t.Context(), "SELECT $1::int", 1)
	requireState(t, err, "26000")
	require.NoError(t, tx.Rollback(t.Context()))
}

// The worst of describe_exec is no error: another client's statement is carried out.
func TestControl_DescribeExecCarriesOutAnotherClientsStatement(t *testing.T) {
	t.Parallel()
	for _, k := range transactionKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p := install(t, pgx.QueryExecModeDescribeExec, k.settings, map[string]string{"default_pool_size": "1"})
			ours, theirs := p.conn(t), p.conn(t)
			// The two halves of a statement in this mode, with another client between them.
			_, err := ours.PgConn().Prepare(t.Context(), "", "SELECT 'ours'", nil)
			require.NoError(t, err)
			_, err = theirs.PgConn().Prepare(t.Context(), "", "SELECT 'theirs'", nil)
			require.NoError(t, err)
			result := ours.PgConn().ExecPrepared(t.Context(), "", nil, nil, nil).Read()
			require.NoError(t, result.Err)
			require.Equal(t, "theirs", string(result.Rows[0][0]))
		})
	}
}

func (p place) conn(t testing.TB) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(p.pooler.DSN())
	require.NoError(t, err)
	config.DefaultQueryExecMode = p.mode
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func requireState(t testing.TB, err error, state string) {
	t.Helper()
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, state, pg.Code, pg.Message)
}

// Looking costs round trips once for a client, and only in a mode that a pooler can break.
func TestStart_LookingForAPoolerCostsNothingLaterOn(t *testing.T) {
	t.Parallel()
	starts := map[string]map[string]int{}
	var mu sync.Mutex
	measure := func(t *testing.T, where string, mode pgx.QueryExecMode, pool func(change func(*pgxpool.Config)) *pgxpool.Pool, schema string) {
		t.Helper()
		var wire faultnet.Wire
		c, err := pglock.New(pool(func(c *pgxpool.Config) { c.ConnConfig.DialFunc = wire.Dial(c.ConnConfig.DialFunc) }),
			pglock.Config{Schema: schema, RenewInterval: patience, TTL: 4 * patience})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		require.NoError(t, c.Check(t.Context()))
		mu.Lock()
		if starts[where] == nil {
			starts[where] = map[string]int{}
		}
		starts[where][mode.String()] = wire.Trips()
		mu.Unlock()
		require.NoError(t, c.Check(t.Context()))
		take(t, c, "warm "+mode.String()+where) // Prepares or describes the statement.
		before := wire.Trips()
		for i := range 5 {
			take(t, c, fmt.Sprint(mode, where, i))
		}
		require.Equal(t, before+5, wire.Trips(), "one round trip a grant")
	}
	direct := install(t, 0)
	for _, mode := range allModes {
		if mode != pgx.QueryExecModeDescribeExec { // Two a statement by itself.
			measure(t, "direct", mode, func(change func(*pgxpool.Config)) *pgxpool.Pool {
				config, err := pgxpool.ParseConfig(direct.direct)
				require.NoError(t, err)
				config.ConnConfig.DefaultQueryExecMode = mode
				change(config)
				return pgtest.PoolWith(t, config)
			}, direct.schema)
		}
		for _, k := range append(transactionKinds(t), kind{name: "session", settings: map[string]string{"pool_mode": "session", "default_pool_size": "50"}}) {
			if mode != pgx.QueryExecModeDescribeExec && (k.name == "session" || k.works(mode)) {
				p := install(t, mode, k.settings)
				measure(t, k.name, mode, func(change func(*pgxpool.Config)) *pgxpool.Pool { return p.pool(t, change) }, p.schema)
			}
		}
	}
	t.Logf("round trips of a start: %v", starts)
	for _, mode := range allModes[1:] {
		for where, trips := range starts {
			if mode != pgx.QueryExecModeDescribeExec {
				require.Equal(t, 1, trips[mode.String()], "%s, %s", where, mode)
			}
		}
	}
	require.Equal(t, 1, starts["direct"]["cache statement"])
}
