package main

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	stock "github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5" // keeps what the build below needs in go.sum
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// TestMigrate_StockCommandLineAcceptsTheSameFiles: golang-migrate's own program, on the files as they lie in the repository.
func TestMigrate_StockCommandLineAcceptsTheSameFiles(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "migrate")
	out, err := exec.Command("go", "build", "-tags", "pgx5", "-o", program, "github.com/golang-migrate/migrate/v4/cmd/migrate").CombinedOutput()
	require.NoError(t, err, string(out))

	dsn, base := pgtest.Schema(t)
	schema := "stock_" + strings.ReplaceAll(base, " ", "_") // the program does not get a blank through its URL
	conn, env := connect(t, dsn), databaseEnv(dsn)
	execute(t, conn, "CREATE SCHEMA "+quote(schema))
	t.Cleanup(func() { execute(t, conn, "DROP SCHEMA "+quote(schema)+" CASCADE") })
	database := stockURL(t, dsn, schema)
	run := func(words ...string) string {
		out, err := exec.CommandContext(limit(t), program,
			append([]string{"-path", filepath.Join("..", "..", "migrations"), "-database", database}, words...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}

	run("up")
	made := tablesOf(t, conn, schema)
	require.Equal(t, newest, mustRun(t, env, "migrate", "version", "-schema", schema))
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	require.Equal(t, made, tablesOf(t, conn, schema))
	run("down", "-all")
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	require.Contains(t, run("up"), "no change")
	require.Contains(t, run("version"), strings.TrimSpace(newest))
	require.Equal(t, made, tablesOf(t, conn, schema))

	// What its manual step for a dirty version would do, Up does by itself.
	execute(t, conn, "UPDATE "+quote(schema, "pglock_schema_migrations")+" SET version = 1, dirty = true")
	require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	require.Contains(t, run("up"), "no change")
}

// stockURL is what an operator gives to golang-migrate's program.
func stockURL(t *testing.T, dsn, schema string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Scheme = "pgx5"
	u.Path = "/" + config.Database
	query := u.Query()
	query.Set("x-migrations-table", "pglock_schema_migrations")
	query.Set("search_path", quote(schema))
	u.RawQuery = query.Encode()
	return u.String()
}

// stockKey is the key of the lock that golang-migrate's program takes.
func stockKey(t *testing.T, conn *pgx.Conn, schema string) string {
	t.Helper()
	key, err := stock.GenerateAdvisoryLockId("/"+conn.Config().Database, schema, "pglock_schema_migrations")
	require.NoError(t, err)
	return key
}
