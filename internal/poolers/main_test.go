package poolers

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestMain(m *testing.M) {
	// The tests wait more than they work. The command line overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// patience is how long a test waits for what must come. It bounds a test that fails, and asserts nothing about speed.
const patience = 30 * time.Second

// lasting is the config of a lease that a stall of this machine does not cost.
var lasting = pglock.Config{
	TTL: 4 * time.Second, RenewInterval: 250 * time.Millisecond, RequestTimeout: 3 * time.Second, PollInterval: 50 * time.Millisecond,
}

// allModes are pgx's.
var allModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// A kind is a way to run PgBouncer.
type kind struct {
	name     string
	settings map[string]string
	tracking bool // it knows prepared statements
}

// transactionKinds are those of transaction mode that the installed PgBouncer has.
func transactionKinds(t testing.TB) []kind {
	t.Helper()
	if !knowsPreparedStatements(t) {
		return []kind{{name: "without prepared statements"}}
	}
	return []kind{
		{name: "without prepared statements", settings: map[string]string{"max_prepared_statements": "0"}},
		{name: "with prepared statements", settings: map[string]string{"max_prepared_statements": "20"}, tracking: true},
	}
}

// works says whether a mode does in transaction mode.
func (k kind) works(mode pgx.QueryExecMode) bool {
	switch mode {
	case pgx.QueryExecModeDescribeExec:
		return false
	case pgx.QueryExecModeCacheStatement:
		return k.tracking
	}
	return true
}

// knowsPreparedStatements is true from PgBouncer 1.21 on, where max_prepared_statements is above 0.
func knowsPreparedStatements(t testing.TB) bool {
	t.Helper()
	for _, program := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		output, err := exec.CommandContext(t.Context(), program, "--version").Output()
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		require.NoError(t, err)
		found := regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`).FindStringSubmatch(string(output))
		require.Len(t, found, 3, string(output))
		major, _ := strconv.Atoi(found[1])
		minor, _ := strconv.Atoi(found[2])
		t.Logf("PgBouncer %d.%d", major, minor)
		return major > 1 || minor >= 21
	}
	pgtest.Skip(t, "PgBouncer is not installed")
	return false
}

// A place is a schema with the tables, and a PgBouncer in front of it.
type place struct {
	direct, schema string
	admin          *pgxpool.Pool // the test's own, past the pooler
	pooler         *pgserver.Bouncer
	mode           pgx.QueryExecMode // of the clients
}

// poolSize is how many sessions the pooler has for all clients of a test, unless the test says otherwise.
const poolSize = 2

// install makes a place on the shared server.
func install(t testing.TB, mode pgx.QueryExecMode, settings ...map[string]string) place {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	return installOn(t, dsn, schema, mode, settings...)
}

// installOn makes one in a schema that has the tables.
func installOn(t testing.TB, dsn, schema string, mode pgx.QueryExecMode, settings ...map[string]string) place {
	t.Helper()
	all := map[string]string{"default_pool_size": strconv.Itoa(poolSize), "max_client_conn": "500"}
	for _, s := range settings {
		maps.Copy(all, s)
	}
	pooler := pgtest.PgBouncer(t, dsn, pgserver.BouncerOptions{Settings: all})
	return place{direct: dsn, schema: schema, admin: pgtest.Pool(t, dsn), pooler: pooler, mode: mode}
}

// pool is a pool through the pooler, as another process would have it.
func (p place) pool(t testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(p.pooler.DSN())
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = p.mode
	for _, f := range change {
		f(config)
	}
	return pgtest.PoolWith(t, config)
}

// client has a pool of its own.
func (p place) client(t testing.TB, config pglock.Config, change ...func(*pgxpool.Config)) *pglock.Client {
	t.Helper()
	config.Schema = p.schema
	client, err := pglock.New(p.pool(t, change...), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx) // The test may have broken what it leads to.
	})
	return client
}

// sql puts the quoted schema in place of %s.
func (p place) sql(text string) string {
	return strings.ReplaceAll(text, "%s", pgx.Identifier{p.schema}.Sanitize())
}

func (p place) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	_, err := p.admin.Exec(t.Context(), p.sql(text), args...)
	require.NoError(t, err)
}

// value reads one value, past the pooler.
func value[T any](t testing.TB, p place, text string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, p.admin.QueryRow(t.Context(), p.sql(text), args...).Scan(&v))
	return v
}

// take acquires at once.
func take(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	return lease
}

// takeSoon acquires, waiting.
func takeSoon(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := c.Acquire(ctx, name)
	require.NoError(t, err)
	return lease
}

// lost waits for the loss of a lease and returns why.
func lost(t testing.TB, lease *pglock.Lease) *pglock.LostError {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the loss was not noticed")
	}
	var lostErr *pglock.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lostErr)
	return lostErr
}

// soon waits for a condition.
func soon(t testing.TB, condition func() bool, about ...any) {
	t.Helper()
	require.Eventually(t, condition, patience, 10*time.Millisecond, about...)
}

// outlives waits until a lease has lived for a whole TTL past its first expiry: renewals alone did that.
func (p place) outlives(t testing.TB, lease *pglock.Lease, ttl time.Duration) {
	t.Helper()
	soon(t, func() bool {
		return value[bool](t, p, "SELECT clock_timestamp() > acquired_at + 2 * make_interval(secs => $2) FROM %s.pglock_leases WHERE name = $1",
			lease.Name(), ttl.Seconds())
	})
	require.NoError(t, lease.Err())
	require.EqualValues(t, lease.Token(), value[int64](t, p, "SELECT token FROM %s.pglock_leases WHERE name = $1", lease.Name()))
}
