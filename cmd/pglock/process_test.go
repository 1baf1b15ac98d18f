package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// asCommand makes the test binary behave as pglock: real processes without a build for each test.
const asCommand = "PGLOCK_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// process is one run of the command.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// start starts pglock with an environment that has only what is given: the machine's PG* variables do not matter.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	// The race detector would make each process stay for a second at its end.
	p.cmd.Env = append([]string{asCommand + "=1", "GORACE=atexit_sleep_ms=0", "HOME=" + t.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		_ = p.cmd.Wait()
		cancel()
	})
	return p
}

// wait returns the exit code; -1: killed.
func (p *process) wait() int {
	_ = p.cmd.Wait() // the code tells
	return p.cmd.ProcessState.ExitCode()
}

// pglockRun runs pglock to its end.
func pglockRun(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, env, args...)
	code = p.wait()
	return code, p.stdout.String(), p.stderr.String()
}

// mustRun runs pglock, requires exit code 0, and returns stdout.
func mustRun(t *testing.T, env []string, args ...string) string {
	t.Helper()
	code, stdout, stderr := pglockRun(t, env, args...)
	require.Zero(t, code, stderr)
	return stdout
}

// databaseEnv is the database in the environment.
func databaseEnv(dsn string) []string { return []string{"DATABASE_URL=" + dsn} }

// limit is longer than any test takes.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(limit(t), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.Exec(limit(t), statement)
		require.NoError(t, err, statement)
	}
}

func value[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	rows, err := conn.Query(limit(t), sql, args...)
	require.NoError(t, err)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return v
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// tablesOf lists tables with their columns, and what the bookkeeping table says: the state that a migration leaves.
func tablesOf(t *testing.T, conn *pgx.Conn, schema string) string {
	t.Helper()
	tables := value[string](t, conn, `
SELECT coalesce(string_agg(concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)),
    E'\n' ORDER BY c.relname, a.attnum), '')
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`, schema)
	if !strings.Contains(tables, "pglock_schema_migrations") {
		return tables
	}
	return tables + "\n" + value[string](t, conn,
		"SELECT coalesce(string_agg(concat_ws(' ', version, dirty), ', '), '') FROM "+quote(schema, "pglock_schema_migrations"))
}
