package migrations_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

func TestUp_InstallsTheTablesAndAgainChangesNothing(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	options := migrations.Options{Schema: schema}

	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
	for _, table := range []string{"pglock_leases", "job_fences", "pglock_epochs"} {
		require.Zero(t, one[int](t, conn, "SELECT count(*)::int FROM "+quote(schema, table)))
	}

	before := one[string](t, conn, "SELECT xmin::text FROM "+quote(schema, "pglock_schema_migrations"))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.Equal(t, before, one[string](t, conn, "SELECT xmin::text FROM "+quote(schema, "pglock_schema_migrations")))
}

func TestUp_ToStopsThere(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	for _, to := range []int{1, 2, 1, migrations.Newest} {
		require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema, To: to}))
	}
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
	for _, to := range []int{-1, migrations.Newest + 1} {
		require.Error(t, migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema, To: to}))
	}
}

func TestUp_AnyNameOfASchema(t *testing.T) {
	t.Parallel()
	dsn, base := pgtest.Schema(t)
	for _, suffix := range []string{
		`We""ird schema`, `quote's`, `back\slash`, `a,b`, `Grüße 漢字`, `$$`, "two\nlines", `"`, `%s%d`, `:x`, `;--`,
	} {
		schema := base + suffix
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, dsn)
			t.Cleanup(func() { run(t, conn, "DROP SCHEMA IF EXISTS "+quote(schema)+" CASCADE") })
			options := migrations.Options{Schema: schema}
			require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
			require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
			status, err := migrations.Version(limit(t), migrations.URL(dsn), options)
			require.NoError(t, err)
			require.True(t, status.Current())
			require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
			require.Empty(t, recorded(t, conn, schema))
		})
	}
}

func TestUp_NameThatMeansSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		"$user", "pg_temp", "pg_catalog", "information_schema", strings.Repeat("x", 64), "a\x00b", "a\xff",
	} {
		require.Error(t, migrations.Up(limit(t), migrations.URL("host=localhost port=1"), migrations.Options{Schema: schema}), schema)
		_, err := migrations.Script(migrations.Options{Schema: schema})
		require.Error(t, err, schema)
	}
}

// TestUp_DatabaseOfAnotherEncoding: names go through whatever encoding and string syntax the session has by default.
func TestUp_DatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	admin := connect(t, pgtest.Private(t, nil).DSN())
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := strings.ToLower(encoding)
		run(t, admin, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
			"ALTER DATABASE "+name+" SET standard_conforming_strings = off")
		pool := openPool(t, admin.Config().ConnString(), func(config *pgxpool.Config) {
			config.ConnConfig.Database, config.MaxConns = name, 1
		})
		const schema = `Grüße\x'"`
		require.NoError(t, migrations.Up(limit(t), migrations.Pool(pool), migrations.Options{Schema: schema}))
		_, err := pool.Exec(limit(t), "SET client_encoding = 'UTF8'; SET standard_conforming_strings = on")
		require.NoError(t, err)
		require.True(t, one[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema))
	}
}

func TestUp_EveryQueryModeOfAPool(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dsn, schema := pgtest.Schema(t)
			pool := openPool(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode })
			options := migrations.Options{Schema: schema}
			require.NoError(t, migrations.Up(limit(t), migrations.Pool(pool), options))
			require.NoError(t, migrations.Down(limit(t), migrations.Pool(pool), options))
			require.NoError(t, migrations.Up(limit(t), migrations.Pool(pool), options))
			status, err := migrations.Version(limit(t), migrations.Pool(pool), options)
			require.NoError(t, err)
			require.Equal(t, migrations.Status{Version: migrations.Newest}, status)
		})
	}
}

// TestUp_PoolOfOneStaysAsItWas: 50 calls, every third of them failing in one of three ways.
func TestUp_PoolOfOneStaysAsItWas(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	run(t, connect(t, dsn), "CREATE TABLE "+quote(schema, "keep")+" ()")
	pool := openPool(t, dsn, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.RuntimeParams["search_path"] = "pg_catalog"
		config.ConnConfig.RuntimeParams["lock_timeout"] = "1234ms"
	})
	settings := func() string {
		return one[string](t, pool, `SELECT string_agg(concat_ws('=', name, setting), ' ' ORDER BY name) FROM pg_settings WHERE name IN
			('search_path', 'lock_timeout', 'statement_timeout', 'client_encoding', 'client_min_messages', 'idle_in_transaction_session_timeout')`)
	}
	before := settings()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 50 {
		options, ctx := migrations.Options{Schema: schema}, limit(t)
		switch {
		case i%9 == 2:
			ctx = cancelled
		case i%9 == 5:
			options.Schema = "pg_nothing"
		case i%9 == 8:
			ctx, cancel = context.WithTimeout(limit(t), 1+time.Duration(i)*50*time.Microsecond)
			defer cancel()
		}
		var err error
		if i%2 == 0 {
			err = migrations.Up(ctx, migrations.Pool(pool), options)
		} else {
			err = migrations.Down(ctx, migrations.Pool(pool), options)
		}
		switch i % 9 {
		case 2, 5:
			require.Error(t, err)
		case 8: // may be in time
		default:
			require.NoError(t, err)
		}
		// The pool destroys a broken connection in the background.
		require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 10*time.Second, time.Millisecond)
		require.Equal(t, before, settings())
	}
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
}

func TestUp_NoDatabaseGiven(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, migrations.Up(limit(t), nil, migrations.Options{}), "no database")
	require.ErrorContains(t, migrations.Up(limit(t), migrations.Pool(nil), migrations.Options{}), "nil")
}

// TestUp_SettingsOfTheRoleDoNotMatter: the wait is longer than each timeout.
func TestUp_SettingsOfTheRoleDoNotMatter(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	admin := connect(t, dsn)
	holder := holdLock(t, dsn, schema)
	pool := openPool(t, dsn, func(config *pgxpool.Config) {
		for name, value := range map[string]string{
			"lock_timeout":                        "100ms",
			"statement_timeout":                   "500ms",
			"idle_in_transaction_session_timeout": "500ms",
			"default_transaction_isolation":       "serializable",
			"default_transaction_read_only":       "on",
			"default_transaction_deferrable":      "on",
			"search_path":                         "",
		} {
			config.ConnConfig.RuntimeParams[name] = value
		}
	})
	done := make(chan error, 1)
	go func() { done <- migrations.Up(limit(t), migrations.Pool(pool), migrations.Options{Schema: schema}) }()
	select {
	case err := <-done:
		t.Fatalf("went past the lock: %v", err)
	case <-time.After(1500 * time.Millisecond):
	}
	holder()
	require.NoError(t, <-done)
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, admin, schema))
}

// holdLock holds the lock of a migration as another process would, until the function it returns is called.
func holdLock(t *testing.T, dsn, schema string) (release func()) {
	t.Helper()
	conn := connect(t, dsn)
	run(t, conn, "BEGIN", "SELECT pg_advisory_xact_lock("+stockKey(t, conn, schema)+")")
	return func() { run(t, conn, "ROLLBACK") }
}

func TestUp_WaitsOutsideATransactionAndSaysForWhom(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	admin := connect(t, dsn)
	run(t, admin, "CREATE TABLE "+quote(schema, "big")+" (a int)")
	release := holdLock(t, dsn, schema)
	defer release()

	var told log
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- migrations.Up(ctx, migrations.URL(dsn), migrations.Options{Schema: schema, Logger: told.logger()})
	}()

	// It ends only if no transaction of a waiter stays open.
	for range 5 {
		run(t, connect(t, dsn), "CREATE INDEX CONCURRENTLY ON "+quote(schema, "big")+" (a)")
	}
	err := <-done
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "another process is migrating")
	require.ErrorContains(t, err, "lock held by pid")
	require.Contains(t, told.String(), "waiting for another process")
	require.Equal(t, 1, strings.Count(told.String(), "\n"), "once, not at every attempt")
	require.Empty(t, recorded(t, admin, schema))
}

// TestUp_LockLeftBehindByAPoolerIsNamed: what golang-migrate's own program does behind a transaction pooler.
func TestUp_LockLeftBehindByAPoolerIsNamed(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	left := connect(t, dsn)
	run(t, left, "SELECT pg_advisory_lock("+stockKey(t, left, schema)+")")
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	err := migrations.Up(ctx, migrations.URL(dsn), migrations.Options{Schema: schema})
	require.ErrorContains(t, err, fmt.Sprintf("SELECT pg_terminate_backend(%d)", left.PgConn().PID()))
}

// TestUp_TableInUseIsWaitedForInShortTurns: a reader of a table that is to be dropped does not make later readers queue for long.
func TestUp_TableInUseIsWaitedForInShortTurns(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	reader := connect(t, dsn)
	run(t, reader, "BEGIN", "SELECT FROM "+quote(schema, "pglock_epochs"))
	done := make(chan error, 1)
	go func() { done <- migrations.Down(limit(t), migrations.URL(dsn), options) }()
	later := connect(t, dsn)
	for range 3 {
		started := time.Now()
		run(t, later, "SELECT FROM "+quote(schema, "pglock_epochs"))
		require.Less(t, time.Since(started), 5*time.Second)
	}
	require.Eventually(t, func() bool {
		return one[bool](t, later, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass)",
			quote(schema, "pglock_epochs"))
	}, 20*time.Second, 5*time.Millisecond)
	started := time.Now()
	run(t, later, "SELECT FROM "+quote(schema, "pglock_epochs"))
	require.Less(t, time.Since(started), 5*time.Second)
	run(t, reader, "COMMIT")
	require.NoError(t, <-done)
}

func TestUp_RoleNeedsNoMoreThanTheSchema(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	admin := connect(t, dsn)
	role := "role of " + schema
	run(t, admin, "CREATE ROLE "+quote(role)+" NOLOGIN")
	t.Cleanup(func() { run(t, admin, "DROP OWNED BY "+quote(role), "DROP ROLE "+quote(role)) })
	as := openPool(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = role })
	options := migrations.Options{Schema: schema}

	var pgErr *pgconn.PgError
	for _, missing := range []string{"absent" + schema, schema} {
		err := migrations.Up(limit(t), migrations.Pool(as), migrations.Options{Schema: missing})
		require.ErrorAs(t, err, &pgErr)
		require.Equal(t, "42501", pgErr.Code)
	}

	run(t, admin, "GRANT USAGE, CREATE ON SCHEMA "+quote(schema)+" TO "+quote(role))
	require.NoError(t, migrations.Up(limit(t), migrations.Pool(as), options))

	// Nothing to do: USAGE and SELECT are enough.
	run(t, admin, "REVOKE CREATE ON SCHEMA "+quote(schema)+" FROM "+quote(role))
	require.NoError(t, migrations.Up(limit(t), migrations.Pool(as), options))
}

func TestUp_SchemaMigrationsOfTheApplicationIsNotTouched(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	foreign := quote(schema, "schema_migrations")
	run(t, conn, "CREATE TABLE "+foreign+" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)",
		"INSERT INTO "+foreign+" VALUES (42, false)")
	row := "SELECT concat_ws(' ', ctid, xmin, version, dirty) FROM " + foreign
	before := one[string](t, conn, row)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
	require.Equal(t, before, one[string](t, conn, row))
}

func TestUp_TemporaryTableOfTheCallerIsNotTouched(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	pool := openPool(t, dsn, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE pglock_leases (mine int)")
			return err
		}
	})
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.Pool(pool), options))
	require.NoError(t, migrations.Down(limit(t), migrations.Pool(pool), options))
	require.Zero(t, one[int](t, pool, "SELECT count(mine)::int FROM pg_temp.pglock_leases"))
}

func TestUp_NewerDatabaseIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	run(t, conn, "UPDATE "+quote(schema, "pglock_schema_migrations")+" SET version = 7",
		"ALTER TABLE "+quote(schema, "pglock_leases")+" ADD COLUMN later int NOT NULL")

	var told log
	options.Logger = told.logger()
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.Contains(t, told.String(), "newer than this library")
	require.Equal(t, "7", recorded(t, conn, schema))
	status, err := migrations.Version(limit(t), migrations.URL(dsn), options)
	require.NoError(t, err)
	require.True(t, status.Current())
	require.ErrorContains(t, migrations.Down(limit(t), migrations.URL(dsn), options), "newer than this library")
	require.Equal(t, "7", recorded(t, conn, schema))
}
