package pgtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

func TestMain(m *testing.M) { Main(m) }

func TestSchema_IsFreshAndDropped(t *testing.T) {
	t.Parallel()
	var dsn string
	var names []any
	quoted := 0
	t.Run("tests", func(t *testing.T) {
		for range 3 {
			var schema string
			dsn, schema = Schema(t)
			names = append(names, schema)
			if strings.Contains(schema, `"`) {
				quoted++
			}
			exists(t, dsn, schema, true)
		}
	})
	require.Len(t, names, 3)
	require.GreaterOrEqual(t, quoted, 1, "a name that needs quoting")
	for _, name := range names {
		exists(t, dsn, name, false)
	}
}

func exists(t *testing.T, dsn string, schema any, want bool) {
	t.Helper()
	var got bool
	require.NoError(t, Pool(t, dsn).QueryRow(t.Context(), "SELECT count(*) = 1 FROM pg_namespace WHERE nspname = $1", schema).Scan(&got))
	require.Equal(t, want, got, schema)
}

func TestServer_IsShared(t *testing.T) {
	t.Parallel()
	require.Same(t, Server(t), Server(t))
}

func TestPrivate_IsNotShared(t *testing.T) {
	t.Parallel()
	server := Private(t, map[string]string{"statement_timeout": "1234ms"})
	require.NotEqual(t, Server(t).DSN(), server.DSN())
	var timeout string
	require.NoError(t, Pool(t, server.DSN()).QueryRow(t.Context(), "SHOW statement_timeout").Scan(&timeout))
	require.Equal(t, "1234ms", timeout)
	require.NoError(t, server.Stop(pgserver.Immediate))
}

// recorder is a testing.TB that survives its own failure.
type recorder struct {
	testing.TB
	failed, skipped string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Fatalf(f string, a ...any) { r.failed = f; panic(r) }
func (r *recorder) Skip(a ...any)             { r.skipped = a[0].(string); panic(r) }

func TestSkip_FailsInCI(t *testing.T) {
	for value, fails := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv("LEASEHOLD_NO_SKIP", value)
		r := &recorder{TB: t}
		require.Panics(t, func() { Skip(r, "no engine") })
		require.Equal(t, fails, r.failed != "", value)
		require.Equal(t, !fails, r.skipped != "", value)
	}
}

func TestMigrated_HasTheTables(t *testing.T) {
	t.Parallel()
	for range 3 { // one of the names needs quoting
		dsn, schema := Migrated(t)
		var tables int
		require.NoError(t, Pool(t, dsn).QueryRow(t.Context(),
			"SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename IN ('pglock_leases', 'job_fences')", schema).Scan(&tables))
		require.Equal(t, 2, tables, schema)
	}
}

func TestPgBouncer_IsInFront(t *testing.T) {
	t.Parallel()
	dsn, schema := Migrated(t)
	through := PgBouncer(t, dsn, pgserver.BouncerOptions{PoolSize: 2}).DSN()
	require.NotEqual(t, dsn, through)
	exists(t, through+"&default_query_exec_mode=exec", schema, true)
}

func TestStandby_IsBehind(t *testing.T) {
	t.Parallel()
	primary := Private(t, nil)
	schema := MigratedOn(t, primary.DSN())
	standby := Standby(t, primary)
	require.NoError(t, standby.CatchUp(t.Context(), primary))
	exists(t, standby.DSN(), schema, true)
}
