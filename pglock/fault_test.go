package pglock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// Whichever round trip of an acquire breaks, before it reaches the server or after the server carried it out, the caller
// ends as the holder with a matching row, or not as the holder with a row that is free soon (I9).
func TestAcquire_EveryBrokenRoundTripEndsWellDefined(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	direct := installation{dsn: dsn, schema: schema, pool: pgtest.Pool(t, dsn)}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, isolation := range []string{"read committed", "serializable"} {
			for how, fault := range map[string]faultnet.Fault{"before": faultnet.BeforeSend(), "after": faultnet.AfterSend()} {
				for n := 1; n <= 4; n++ {
					patience := []time.Duration{50 * time.Millisecond, 5 * time.Second}[n%2] // No time, or time to ask again.
					name := fmt.Sprint(mode, " ", isolation, " ", how, " ", n)
					t.Run(name, func(t *testing.T) {
						var wire faultnet.Wire
						config, err := pgxpool.ParseConfig(dsn)
						require.NoError(t, err)
						config.ConnConfig.DefaultQueryExecMode = mode
						config.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
						config.ConnConfig.DialFunc = wire.Dial(config.ConnConfig.DialFunc)
						config.MaxConns = 1
						pool := pgtest.PoolWith(t, config)
						c := clientOf(t, pool, schema, pglock.Config{TTL: 6 * time.Second})
						require.NoError(t, take(t, c, name+" before").Release(t.Context()))
						wire.Fail(n, fault)
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						lease, err := c.TryAcquire(ctx, name)
						require.True(t, n > 1 || wire.Fired())
						if err == nil {
							require.EqualValues(t, 1, lease.Token(), "a retry finds its own grant")
							require.True(t, value[bool](t, direct, "SELECT expires_at > clock_timestamp() AND token = 1 FROM %s.pglock_leases WHERE name = $1", name))
							wire.Heal()
							require.NoError(t, lease.Release(t.Context()))
							return
						}
						require.NotErrorIs(t, err, pglock.ErrNotAcquired)
						wire.Heal()
						require.Eventually(t, func() bool {
							return value[int](t, direct, "SELECT count(*) FROM %s.pglock_leases WHERE name = $1 AND expires_at IS NOT NULL", name) == 0
						}, 4*time.Second, 10*time.Millisecond, "released in the background, well before the TTL")
					})
				}
			}
		}
	}
}
