package poolers

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// Statement mode carries the leases, which are one statement each, and no transaction of anybody: a fenced write is refused
// by the pooler at its BEGIN, with nothing written.
func TestStatementMode_CarriesLeasesAndRefusesFencedWrites(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p := install(t, mode, map[string]string{"pool_mode": "statement"})
			p.exec(t, "CREATE TABLE %s.written (token bigint NOT NULL)")
			lease := take(t, p.client(t, lasting), "n")
			err := p.tryWrite(t, lease)
			require.ErrorContains(t, err, "statement pooling mode")
			require.Zero(t, value[int](t, p, "SELECT count(*) FROM %s.written"))
			p.outlives(t, lease, lasting.TTL)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// tryWrite is one fenced write.
func (p place) tryWrite(t testing.TB, lease *pglock.Lease) error {
	t.Helper()
	pool := p.pool(t)
	return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := lease.AdvanceTx(t.Context(), tx); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), p.sql("INSERT INTO %s.written VALUES ($1)"), int64(lease.Token()))
		return err
	})
}

// A setting of the connection string that is a parameter of the session is refused by the pooler, by name. It can be told to
// ignore it, and leases do without.
func TestStartupParameters_AreRefusedByNameOrIgnored(t *testing.T) {
	t.Parallel()
	searching := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "nowhere" }
	p := install(t, pgx.QueryExecModeExec)
	require.ErrorContains(t, p.client(t, pglock.Config{}, searching).Check(t.Context()), "search_path")
	p = install(t, pgx.QueryExecModeExec, map[string]string{"ignore_startup_parameters": "search_path"})
	c := p.client(t, pglock.Config{}, searching)
	require.NoError(t, take(t, c, "n").Release(t.Context()))
}

// The name of an application is one that the pooler passes on.
func TestApplicationName_IsThatOfTheClientWhoseStatementRuns(t *testing.T) {
	t.Parallel()
	p := install(t, pgx.QueryExecModeExec, map[string]string{"default_pool_size": "1"})
	for _, name := range []string{"leasehold one", "leasehold two"} {
		pool := p.pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name })
		for range 2 {
			var seen string
			require.NoError(t, pool.QueryRow(t.Context(), "SHOW application_name").Scan(&seen))
			require.Equal(t, name, seen)
		}
	}
}

// Settings under which sessions come and go, or are cleaned after each transaction.
func TestSessions_MayEndAndBeReset(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"server_idle_timeout":       {"server_idle_timeout": "1"},
		"server_lifetime":           {"server_lifetime": "1"},
		"server_reset_query_always": {"server_reset_query_always": "1"},
		"server_check_delay":        {"server_check_delay": "0"},
		"server_round_robin":        {"server_round_robin": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := install(t, pgx.QueryExecModeCacheDescribe, settings)
			p.exec(t, "CREATE TABLE %s.written (token bigint NOT NULL)")
			slow := lasting
			slow.RenewInterval = 1200 * time.Millisecond // Longer than a session may be idle.
			slow.RequestTimeout = 2 * time.Second
			lease := take(t, p.client(t, slow), "n")
			p.outlives(t, lease, slow.TTL)
			require.NoError(t, p.tryWrite(t, lease))
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// While others have all sessions, questions wait, and the pooler ends those that wait for too long. The lease outlives it if
// that lasts for less than it is trusted; an attempt says why it failed.
func TestQueryWaitTimeout_IsAnOutageThatALeaseOutlives(t *testing.T) {
	t.Parallel()
	p := install(t, pgx.QueryExecModeExec, map[string]string{"default_pool_size": "1", "query_wait_timeout": "1"})
	patient := pglock.Config{TTL: 30 * time.Second, RenewInterval: 200 * time.Millisecond, RequestTimeout: 4 * time.Second}
	holder, other := p.client(t, patient), p.client(t, patient)
	lease := take(t, holder, "n")
	require.NoError(t, other.Check(t.Context()))
	tx, err := p.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = other.TryAcquire(t.Context(), "another")
	require.Error(t, err)
	require.NotErrorIs(t, err, pglock.ErrNotAcquired)
	require.ErrorContains(t, err, "query_wait_timeout")
	require.NoError(t, tx.Rollback(t.Context()))
	seen := value[time.Time](t, p, "SELECT clock_timestamp()")
	soon(t, func() bool {
		return value[bool](t, p, "SELECT renewed_at > $1 FROM %s.pglock_leases WHERE name = 'n'", seen)
	}, "no renewal after it")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, takeSoon(t, other, "another").Release(t.Context()))
}

// A session of the pooler that somebody ends breaks one question, which is asked again.
func TestSessions_ThatAreEndedCostNoLease(t *testing.T) {
	t.Parallel()
	// A server of its own: the sessions that are ended are of this test.
	server := pgtest.Private(t, nil)
	p := installOn(t, server.DSN(), pgtest.MigratedOn(t, server.DSN()), pgx.QueryExecModeExec)
	lease := take(t, p.client(t, lasting), "n")
	for range 5 {
		seen := value[time.Time](t, p, `
			WITH ended AS MATERIALIZED (
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = 'pglock'
			)
			SELECT clock_timestamp() FROM (SELECT count(*) FROM ended) AS e`)
		soon(t, func() bool {
			return value[bool](t, p, "SELECT renewed_at > $1 FROM %s.pglock_leases WHERE name = 'n'", seen)
		}, "no renewal after it")
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(t.Context()))
}
