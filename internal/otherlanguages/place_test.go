package otherlanguages

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

const (
	name     = "invoice-job"
	examples = "../../examples/otherlanguages"
	patience = 30 * time.Second
)

// programs is what the tests need of the machine, built or found once.
type programs struct {
	pglock string
	psql   string
	python string // one that has psycopg2
}

// findPrograms builds pglock and looks for the others.
func findPrograms(t *testing.T) programs {
	t.Helper()
	p := programs{pglock: filepath.Join(t.TempDir(), "pglock")}
	out, err := exec.Command("go", "build", "-o", p.pglock, "../../cmd/pglock").CombinedOutput()
	require.NoError(t, err, string(out))
	if p.psql, err = exec.LookPath("psql"); err != nil {
		pgtest.Skip(t, "psql is not installed")
	}
	// The first python3 of the PATH need not be the one that the system's package of psycopg2 is for.
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import psycopg2").Run() == nil {
			p.python = python
		}
	}
	if p.python == "" {
		pgtest.Skip(t, "there is no python3 with psycopg2")
	}
	return p
}

// A place is a schema with the tables, the programs' own tables in it, and a folder with the programs.
type place struct {
	programs
	dsn, schema, folder string
	options             string // of a session: PGOPTIONS
	admin               *pgxpool.Pool
}

func newPlace(t *testing.T, p programs) place {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	return newPlaceOn(t, p, dsn, schema)
}

// newPlaceOn is newPlace in a schema that has the tables of Leasehold.
func newPlaceOn(t *testing.T, p programs, dsn, schema string) place {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = quoted(schema)
	config.MaxConns = 8
	place := place{programs: p, dsn: dsn, schema: schema, folder: t.TempDir(), admin: pgtest.PoolWith(t, config)}
	escape := strings.NewReplacer(`\`, `\\`, ` `, `\ `)
	place.options = "-c search_path=" + escape.Replace(quoted(schema))
	place.exec(t, `CREATE TABLE orders (customer text PRIMARY KEY, amount numeric NOT NULL);
CREATE TABLE invoices (number bigserial PRIMARY KEY, customer text NOT NULL UNIQUE, amount numeric NOT NULL, token bigint NOT NULL);
INSERT INTO orders SELECT chr(96 + i), i FROM generate_series(1, 26) AS i`)
	place.printStatements(t)
	place.install(t)
	return place
}

// printStatements fills the folder as the comments on top of the programs say.
func (p place) printStatements(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(p.folder, "sql"), 0o700))
	for _, file := range []string{"invoice.psql", "take.psql", "invoice.py"} {
		text, err := os.ReadFile(filepath.Join(examples, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(p.folder, file), text, 0o600))
	}
	for _, s := range []string{"acquire", "enter", "inspect", "release", "renew", "advance"} {
		for form, ending := range map[string]string{"-psql": ".psql", "-python": ".sql"} {
			text, err := exec.Command(p.pglock, "sql", s, form, "-schema", p.schema).Output()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(p.folder, "sql", s+ending), text, 0o600))
		}
	}
}

// install makes the stored procedure.
func (p place) install(t *testing.T) {
	t.Helper()
	cmd := p.command(t, p.psql, "-X", "-v", "ON_ERROR_STOP=1", "-v", "schema="+p.schema, "-f", absolute(t, "procedure.psql"), p.dsn)
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(p.pglock)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func absolute(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(examples, file))
	require.NoError(t, err)
	return path
}

// command is a process in the folder that finds the tables of the place without their schema.
func (p place) command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.folder, "DATABASE_URL=" + p.dsn, "LEASE_SCHEMA=" + p.schema,
		"PGOPTIONS=" + p.options, "PYTHONDONTWRITEBYTECODE=1",
	}
	return cmd
}

func (p place) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := p.admin.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func value[T any](t *testing.T, p place, sql string, args ...any) T {
	t.Helper()
	rows, err := p.admin.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return v
}

func quoted(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

// tokens are those of the invoices, in the order in which they were written.
func (p place) tokens(t *testing.T) []int64 {
	t.Helper()
	rows, err := p.admin.Query(t.Context(), "SELECT token FROM invoices ORDER BY number")
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return found
}

// block keeps the writer of a customer waiting, in its transaction and before its check of the fence, until open is called.
func (p place) block(t *testing.T, customer string) (open func()) {
	t.Helper()
	tx, err := p.admin.Begin(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "SELECT FROM orders WHERE customer = $1 FOR UPDATE", customer)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(context.Background())) }
}

// awaitBlocked waits until a session waits for a blocked customer.
func (p place) awaitBlocked(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return value[bool](t, p, `SELECT EXISTS (
    SELECT FROM pg_locks AS l WHERE NOT l.granted AND EXISTS (
        SELECT FROM pg_locks AS o WHERE o.pid = l.pid AND o.relation = 'orders'::regclass))`)
	}, patience, 10*time.Millisecond)
}

// expire makes the lease run out, as if its TTL had passed.
func (p place) expire(t *testing.T) {
	t.Helper()
	p.exec(t, "UPDATE pglock_leases SET expires_at = clock_timestamp() - interval '1 ms' WHERE name = $1 AND expires_at IS NOT NULL", name)
}
