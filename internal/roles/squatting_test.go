package roles

import (
	"context"
	_ "embed"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

//go:embed plant.sql
var plantSQL string

// TestSquatting_NoStatementRunsTheCodeOfWhoeverMayCreateBesideIt: a role that may CREATE in a schema of somebody's search_path, as
// PUBLIC may in public before PostgreSQL 15, can offer an operator for two types for which pg_catalog has only one that needs a
// conversion, or a function beside one that takes any types. Here the tables are in that very schema, the worst case.
func TestSquatting_NoStatementRunsTheCodeOfWhoeverMayCreateBesideIt(t *testing.T) {
	t.Parallel()
	base := newDatabase(t)
	const schema = "squat"
	execute(t, base, "CREATE SCHEMA squat")
	execute(t, base, planted(t, schema))
	dsn := as(t, base, "", schema)
	conn := connect(t, dsn)
	_, err := conn.Exec(limit(t), "SELECT 1::bigint * interval '1 second'")
	require.ErrorContains(t, err, "squatted", "what is planted is found")
	_, err = conn.Exec(limit(t), "SELECT concat('x'::text, 'y'::text)")
	require.ErrorContains(t, err, "squatted")

	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	script, err := migrations.Script(options)
	require.NoError(t, err)
	execute(t, dsn, script)
	everyStatement(t, dsn, schema)
	printedStatements(t, dsn, schema)
	require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
}

// planted is plant.sql for a schema, with every function that a statement of the project calls.
func planted(t *testing.T, schema string) string {
	t.Helper()
	call := regexp.MustCompile(`\b([a-z_0-9]+)\(`)
	var names []string
	for _, folder := range []string{"pglock", "fencing", "migrations", "cmd/pglock"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			for _, found := range call.FindAllStringSubmatch(string(text), -1) {
				names = append(names, "'"+found[1]+"'")
			}
			return err
		})
		require.NoError(t, err)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	require.Contains(t, names, "'clock_timestamp'")
	return strings.NewReplacer("{schema}", quote(schema), "{names}", "ARRAY["+strings.Join(names, ", ")+"]").Replace(plantSQL)
}

// printedStatements runs what "pglock sql" prints and the library does not send, or only now and then.
func printedStatements(t *testing.T, dsn, schema string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pglock")
	out, err := exec.Command("go", "build", "-o", program, "../../cmd/pglock").CombinedOutput()
	require.NoError(t, err, string(out))
	conn := connect(t, dsn)
	for name, args := range map[string][]any{
		"gate": {"job"}, "blocker": {int64(1)}, "read": {"job"}, "inspect": {[]string{"job"}},
	} {
		text, err := exec.Command(program, "sql", name, "-schema", schema).Output()
		require.NoError(t, err)
		_, err = conn.Exec(limit(t), string(text), args...)
		require.NoError(t, err, name)
	}
	reap, err := pglock.Statement("reap", schema, false)
	require.NoError(t, err)
	_, err = conn.Exec(limit(t), reap, []string{"job"}, []string{"00000000-0000-4000-8000-000000000000"})
	require.NoError(t, err)
}

// everyStatement has the library send each of its statements once, in a schema that has the tables.
func everyStatement(t *testing.T, dsn, schema string) {
	t.Helper()
	pool := pgtest.Pool(t, dsn)
	client, err := pglock.New(pool, pglock.Config{Schema: schema, TTL: 5 * time.Second, RenewInterval: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	require.NoError(t, client.Check(limit(t)))
	lease, err := client.TryAcquire(limit(t), "job")
	require.NoError(t, err)
	_, err = client.TryAcquire(limit(t), "job")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	renewals := func() bool {
		conn, err := pool.Acquire(limit(t))
		require.NoError(t, err)
		defer conn.Release()
		return one[bool](t, conn.Conn(), "SELECT renewed_at > acquired_at FROM "+quote(schema, "pglock_leases")+" WHERE name = 'job'")
	}
	require.Eventually(t, renewals, 30*time.Second, 20*time.Millisecond, "it is renewed")

	fence, token := lease.Fence(), lease.Token()
	strict := fencing.Fence{Name: "run", Schema: schema}
	require.NoError(t, transact(t, pool, func(tx pgx.Tx) error {
		ctx := limit(t)
		require.NoError(t, fence.AdvanceTx(ctx, tx, token))
		require.NoError(t, fence.ShareTx(ctx, tx, token))
		require.NoError(t, strict.CreateTx(ctx, tx))
		return strict.AdvanceStrictTx(ctx, tx, token)
	}))
	require.ErrorIs(t, transact(t, pool, func(tx pgx.Tx) error { return strict.AdvanceStrictTx(limit(t), tx, token) }), fencing.ErrStale)
	require.NoError(t, fence.Run(limit(t), pool, token, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			"CREATE TABLE " + quote(schema, "invoices") + " (id bigint PRIMARY KEY)",
			"CREATE TABLE " + quote(schema, "customers") + " (id bigint PRIMARY KEY, token bigint)",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}))
	rows := fencing.Fence{Name: "j", Schema: schema} // job is the fence of the row "ob".
	_, err = pool.Exec(limit(t), "ALTER TABLE "+quote(schema, "customers")+" ALTER COLUMN id TYPE text")
	require.NoError(t, err)
	require.NoError(t, transact(t, pool, func(tx pgx.Tx) error {
		require.NoError(t, fence.GuardTx(limit(t), tx, quote(schema, "invoices")))
		return rows.GuardRowsTx(limit(t), tx, quote(schema, "customers"), "id", "token")
	}))
	require.NoError(t, transact(t, pool, func(tx pgx.Tx) error {
		require.NoError(t, lease.AdvanceTx(limit(t), tx))
		_, err := tx.Exec(limit(t), "INSERT INTO "+quote(schema, "invoices")+" VALUES (1)")
		require.NoError(t, err)
		_, err = tx.Exec(limit(t), "INSERT INTO "+quote(schema, "customers")+" VALUES ('ob')")
		return err
	}))
	_, err = pool.Exec(limit(t), "INSERT INTO "+quote(schema, "invoices")+" VALUES (2)")
	require.ErrorContains(t, err, "has not passed the fence")
	require.NoError(t, transact(t, pool, func(tx pgx.Tx) error {
		list, err := fence.GuardsTx(limit(t), tx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, rows.UnguardTx(limit(t), tx, quote(schema, "customers")))
		return fence.UnguardTx(limit(t), tx, quote(schema, "invoices"))
	}))
	require.NoError(t, lease.Release(limit(t)))
	_, err = client.RaiseEpoch(limit(t))
	require.NoError(t, err)
	lease, err = client.TryAcquire(limit(t), "job")
	require.NoError(t, err)
	require.NoError(t, lease.Release(limit(t)))
	_, err = pool.Exec(limit(t), "DROP TABLE "+quote(schema, "invoices")+", "+quote(schema, "customers"))
	require.NoError(t, err)
}
