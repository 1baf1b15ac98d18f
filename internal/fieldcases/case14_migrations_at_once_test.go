package fieldcases_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// hindsight PR 726: behind a pooler several pods believed that they had the migration lock.

func TestCase14_TenMigrationsAtOnceThroughAPooler(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "pglock")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	built, err := exec.Command("go", "build", "-o", program, "github.com/leasehold-go/leasehold/cmd/pglock").CombinedOutput()
	require.NoError(t, err, "%s", built)

	server := pgtest.Private(t, map[string]string{"logging_collector": "on", "log_filename": "case14.log", "log_error_verbosity": "verbose"})
	for _, schema := range []string{migrations.DefaultSchema, `Ten "at" once`} {
		p := at(t, server.DSN(), schema)
		p.exec(t, `CREATE SCHEMA IF NOT EXISTS %s`)
		p.exec(t, `CREATE TABLE IF NOT EXISTS public.applied (tag text, object text)`)
		p.exec(t, `
			CREATE OR REPLACE FUNCTION public.note_command() RETURNS event_trigger LANGUAGE plpgsql AS $$
			BEGIN
				INSERT INTO public.applied SELECT command_tag, object_identity FROM pg_event_trigger_ddl_commands();
			END $$`)
		p.exec(t, `DROP EVENT TRIGGER IF EXISTS note_command`)
		p.exec(t, `CREATE EVENT TRIGGER note_command ON ddl_command_end EXECUTE FUNCTION public.note_command()`)

		pooled := pgtest.PgBouncer(t, server.DSN(), pgserver.BouncerOptions{PoolSize: 3}).DSN()
		var outputs [10][]byte
		var errs [10]error
		var group sync.WaitGroup
		for i := range outputs {
			group.Go(func() {
				cmd := exec.Command(program, "migrate", "up", "-schema", schema)
				cmd.Env = append(os.Environ(), "DATABASE_URL="+pooled)
				cmd.WaitDelay = time.Minute
				outputs[i], errs[i] = cmd.CombinedOutput()
			})
		}
		group.Wait()
		for i, output := range outputs {
			require.NoError(t, errs[i], "%s", output)
			require.NotContains(t, string(output), "already exists")
		}
		require.Equal(t, migrations.Newest, value[int](t, p, "SELECT version FROM %s.pglock_schema_migrations WHERE NOT dirty"))
		require.Equal(t, 1, value[int](t, p, "SELECT count(*) FROM %s.pglock_schema_migrations"))
		for _, table := range []string{"pglock_leases", "job_fences", "pglock_epochs"} {
			require.Equal(t, 1, value[int](t, p, "SELECT count(*) FROM public.applied WHERE tag = 'CREATE TABLE' AND object = format('%I.%I', $1::text, $2::text)",
				schema, table), "each migration is applied once")
		}
		require.Zero(t, value[int](t, p, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
		p.exec(t, "DELETE FROM public.applied")
	}
	log := value[string](t, at(t, server.DSN(), "public"), "SELECT pg_read_file('log/case14.log')")
	require.Contains(t, log, "starting PostgreSQL", "it is the server's log")
	for line := range strings.Lines(log) {
		if strings.Contains(line, "ERROR:") || strings.Contains(line, "FATAL:") {
			require.NotContains(t, line, "already exists")
		}
	}
}
