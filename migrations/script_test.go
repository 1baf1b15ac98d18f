package migrations_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

// psql runs a script as an operator would.
func psql(t *testing.T, dsn, searchPath, script string) {
	t.Helper()
	program, err := exec.LookPath("psql")
	if err != nil {
		pgtest.Skip(t, "psql is not on this machine")
	}
	file := filepath.Join(t.TempDir(), "script.sql")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	cmd := exec.CommandContext(limit(t), program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", file)
	escaped := strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(searchPath)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+escaped+" -c client_min_messages=warning")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
}

func TestFS_PsqlAcceptsTheFilesTwiceAndUpContinues(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	options := migrations.Options{Schema: schema}
	names, err := fs.Glob(migrations.FS, "*.sql")
	require.NoError(t, err)
	apply := func(direction string) {
		for range 2 {
			for _, name := range names {
				if strings.HasSuffix(name, direction+".sql") {
					text, err := fs.ReadFile(migrations.FS, name)
					require.NoError(t, err)
					psql(t, dsn, quote(schema), string(text))
				}
			}
		}
	}
	apply("up")
	require.Empty(t, recorded(t, conn, schema))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	withUp := describe(t, conn, schema)
	require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.Equal(t, describe(t, conn, schema), withUp)

	slices.Reverse(names)
	apply("down")
	require.Len(t, all[string](t, conn, "SELECT tablename::text FROM pg_tables WHERE schemaname = $1", schema), 1)
}

func TestScript_DoesWhatUpDoes(t *testing.T) {
	t.Parallel()
	dsn, base := pgtest.Schema(t)
	conn := connect(t, dsn)
	for _, suffix := range []string{" plain", ` '\$$:"x`, "two\nlines"} {
		schema := base + suffix
		t.Cleanup(func() { run(t, conn, "DROP SCHEMA IF EXISTS "+quote(schema)+" CASCADE") })
		options := migrations.Options{Schema: schema}
		script, err := migrations.Script(options)
		require.NoError(t, err)
		for range 2 {
			psql(t, dsn, "pg_catalog", script)
			require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
		}
		made := describe(t, conn, schema)
		require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
		require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
		require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
		require.Equal(t, made, describe(t, conn, schema))

		table := quote(schema, "pglock_schema_migrations")
		run(t, conn, "UPDATE "+table+" SET version = 7")
		psql(t, dsn, "pg_catalog", script)
		require.Equal(t, "7", recorded(t, conn, schema), "a newer version stays")
		run(t, conn, "UPDATE "+table+" SET version = 2, dirty = true")
		psql(t, dsn, "pg_catalog", script)
		require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
	}
}
