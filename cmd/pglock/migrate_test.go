package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// newest is what is printed where the tables are of the newest version.
var newest = fmt.Sprintln(migrations.Newest)

func TestMigrate_UpVersionDown(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	env, conn := databaseEnv(dsn), connect(t, dsn)

	code, stdout, stderr := pglockRun(t, env, "migrate", "version", "-schema", schema)
	require.Equal(t, 3, code)
	require.Equal(t, "0\n", stdout)
	require.Contains(t, stderr, `run "pglock migrate up -schema `)

	require.Equal(t, "2\n", mustRun(t, env, "migrate", "up", "-schema", schema, "-to", "2"))
	code, stdout, _ = pglockRun(t, env, "migrate", "version", "-schema", schema)
	require.Equal(t, 3, code)
	require.Equal(t, "2\n", stdout)

	code, stdout, stderr = pglockRun(t, env, "migrate", "up", "-schema", schema)
	require.Zero(t, code)
	require.Equal(t, newest, stdout)
	require.Contains(t, stderr, "migration applied")
	require.Equal(t, newest, mustRun(t, env, "migrate", "version", "-schema", schema))
	made := tablesOf(t, conn, schema)

	execute(t, conn, "UPDATE "+quote(schema, "pglock_schema_migrations")+" SET dirty = true")
	code, _, stderr = pglockRun(t, env, "migrate", "version", "-schema", schema)
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "dirty")
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	require.Equal(t, made, tablesOf(t, conn, schema))

	require.Equal(t, "1\n", mustRun(t, env, "migrate", "down", "-schema", schema, "-to", "1", "-yes"))
	require.Equal(t, "0\n", mustRun(t, env, "migrate", "down", "-schema", schema, "-yes"))
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	require.Equal(t, made, tablesOf(t, conn, schema))
}

func TestMigrate_DownWithoutYesDropsNothing(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	env := databaseEnv(dsn)
	mustRun(t, env, "migrate", "up", "-schema", schema)
	code, _, _ := pglockRun(t, env, "migrate", "down", "-schema", schema)
	require.Equal(t, 2, code)
	require.Equal(t, newest, mustRun(t, env, "migrate", "version", "-schema", schema))
}

func TestMigrate_SQLThroughPsqlIsWhatUpDoes(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		pgtest.Skip(t, "psql is not on this machine")
	}
	dsn, schema := pgtest.Schema(t)
	env, conn := databaseEnv(dsn), connect(t, dsn)
	script := mustRun(t, nil, "migrate", "sql", "-schema", schema)
	for range 2 {
		cmd := exec.CommandContext(limit(t), psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn)
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	made := tablesOf(t, conn, schema)
	require.Equal(t, newest, mustRun(t, env, "migrate", "version", "-schema", schema))
	mustRun(t, env, "migrate", "down", "-schema", schema, "-yes")
	mustRun(t, env, "migrate", "up", "-schema", schema)
	require.Equal(t, made, tablesOf(t, conn, schema))
}

func TestMigrate_TimeoutAndSignalEndTheWait(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	env, conn := databaseEnv(dsn), connect(t, dsn)
	execute(t, conn, "BEGIN", "SELECT pg_advisory_xact_lock("+stockKey(t, conn, schema)+")")

	started := time.Now()
	code, stdout, stderr := pglockRun(t, env, "migrate", "up", "-schema", schema, "-timeout", "1500ms")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "-timeout of 1.5s is over")
	require.Contains(t, stderr, "lock held by pid")
	require.Less(t, time.Since(started), 20*time.Second)

	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		application := fmt.Sprintf("waits until signal %d", signal) // Other tests migrate on this server too.
		p := start(t, append(env, "PGAPPNAME="+application), "migrate", "up", "-schema", schema)
		require.Eventually(t, func() bool {
			return value[bool](t, connect(t, dsn), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)", application)
		}, 20*time.Second, 10*time.Millisecond)
		require.NoError(t, p.cmd.Process.Signal(signal))
		require.Equal(t, 1, p.wait())
		require.Contains(t, p.stderr.String(), "interrupted")
	}
	execute(t, conn, "ROLLBACK")
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
}

// TestMigrate_TenProcessesAtOnce is field case 14: all exit 0, each migration is applied once, and the server's log
// has no error.
func TestMigrate_TenProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Private(t, map[string]string{
		"logging_collector": "on", "log_filename": "all", "log_min_messages": "warning", "log_statement": "ddl",
	}).DSN()
	admin := connect(t, dsn)
	for i, through := range []string{dsn, pgtest.PgBouncer(t, dsn, pgserver.BouncerOptions{PoolSize: 3}).DSN()} {
		schema := fmt.Sprintf(`We"ird schema %d`, i)
		var processes []*process
		for range 10 {
			processes = append(processes, start(t, databaseEnv(through), "migrate", "up", "-schema", schema))
		}
		applied := 0
		for _, p := range processes {
			require.Zero(t, p.wait(), p.stderr.String())
			require.Equal(t, newest, p.stdout.String())
			applied += strings.Count(p.stderr.String(), "migration applied")
		}
		require.Equal(t, migrations.Newest, applied)
		require.Equal(t, strings.TrimSpace(newest)+" f", value[string](t, admin, "SELECT concat_ws(' ', version, dirty) FROM "+quote(schema, "pglock_schema_migrations")))
	}
	log := value[string](t, admin, "SELECT pg_read_file(pg_current_logfile())")
	require.Equal(t, 2, strings.Count(log, "CREATE TABLE IF NOT EXISTS job_fences"), "one process each for two schemas")
	for _, level := range []string{"ERROR:", "FATAL:", "PANIC:"} {
		require.NotContains(t, log, level)
	}
}
