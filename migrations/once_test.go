package migrations_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// TestUp_TenAtOnceApplyEachMigrationOnce: field case 14, in one process; the test of the command has ten. Half of them
// connect by themselves, half have a pool, each with another search_path where the pooler allows it.
func TestUp_TenAtOnceApplyEachMigrationOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Private(t, map[string]string{"logging_collector": "on", "log_filename": "all", "log_min_messages": "warning"}).DSN()
	pooler := pgtest.PgBouncer(t, dsn, pgserver.BouncerOptions{PoolSize: 3}).DSN()
	admin := connect(t, dsn)
	recordDDL(t, admin)
	for name, through := range map[string]string{"directly": dsn, "through a pooler": pooler} {
		for round := range 3 {
			upOnceAndDown(t, admin, through, through == dsn, fmt.Sprintf("%s %d", name, round))
		}
	}
	require.Empty(t, errorLines(t, admin))
}

func upOnceAndDown(t *testing.T, admin *pgx.Conn, dsn string, direct bool, schema string) {
	t.Helper()
	var databases []migrations.DB
	for i := range 10 {
		if i%2 == 0 {
			databases = append(databases, migrations.URL(dsn))
			continue
		}
		databases = append(databases, migrations.Pool(openPool(t, dsn, func(config *pgxpool.Config) {
			config.MaxConns = 1
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
			if direct {
				config.ConnConfig.RuntimeParams["search_path"] = fmt.Sprintf("path%d", i)
			}
		})))
	}
	var told log
	atOnce(t, databases, func(db migrations.DB) error {
		return migrations.Up(limit(t), db, migrations.Options{Schema: schema, Logger: told.logger()})
	})
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, admin, schema))
	require.Equal(t, migrations.Newest, strings.Count(told.String(), "migration applied"), schema)
	requireAppliedOnce(t, admin, schema)
	require.Zero(t, one[int](t, admin, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'"), schema)

	atOnce(t, databases, func(db migrations.DB) error {
		return migrations.Down(limit(t), db, migrations.Options{Schema: schema})
	})
	require.Empty(t, recorded(t, admin, schema))
}

// TestUp_AndDownAtOnceEnd: they undo each other's steps, and come to an end all the same. None reports a table missing that
// another is taking away at the moment.
func TestUp_AndDownAtOnceEnd(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	db, options := migrations.URL(dsn), migrations.Options{Schema: schema}
	var wg sync.WaitGroup
	errs := make(chan error, 12)
	for i := range 12 {
		wg.Go(func() {
			if i%2 == 0 {
				errs <- migrations.Up(limit(t), db, options)
			} else {
				errs <- migrations.Down(limit(t), db, options)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, migrations.Up(limit(t), db, options))
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
}

// atOnce starts one call for each database, all at the same time; all must succeed.
func atOnce(t *testing.T, databases []migrations.DB, call func(db migrations.DB) error) {
	t.Helper()
	start := make(chan struct{})
	errs := make(chan error, len(databases))
	for _, db := range databases {
		go func() {
			<-start
			errs <- call(db)
		}()
	}
	close(start)
	for range databases {
		require.NoError(t, <-errs)
	}
}

// recordDDL keeps a row of each command that changed the catalogue. A row of a transaction that was rolled back goes with it.
func recordDDL(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	run(t, admin,
		"CREATE TABLE public.ddl (schema text, tag text, identity text)",
		`CREATE FUNCTION public.record_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.ddl
    SELECT schema_name, command_tag, object_identity
    FROM pg_event_trigger_ddl_commands();
END
$$`,
		"CREATE EVENT TRIGGER record_ddl ON ddl_command_end EXECUTE FUNCTION public.record_ddl()")
}

func requireAppliedOnce(t *testing.T, admin *pgx.Conn, schema string) {
	t.Helper()
	require.Equal(t, 4, one[int](t, admin, "SELECT count(*)::int FROM public.ddl WHERE tag = 'CREATE TABLE' AND schema = $1", schema))
	require.Equal(t, 1, one[int](t, admin, "SELECT count(*)::int FROM public.ddl WHERE tag = 'CREATE SCHEMA' AND identity = quote_ident($1)", schema))
	require.Empty(t, all[string](t, admin, `
SELECT concat_ws(' ', count(*), tag, identity)
FROM public.ddl
WHERE schema = $1
GROUP BY tag, identity
HAVING count(*) > 1`, schema), "a file was run twice")
}

// errorLines are the lines of the server's log at level ERROR and above.
func errorLines(t *testing.T, admin *pgx.Conn) (lines []string) {
	t.Helper()
	text := one[string](t, admin, "SELECT pg_read_file(pg_current_logfile())")
	require.NotEmpty(t, text)
	for line := range strings.Lines(text) {
		for _, level := range []string{"ERROR:", "FATAL:", "PANIC:"} {
			if strings.Contains(line, level) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
