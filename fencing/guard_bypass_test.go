package fencing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// unfenced are statements by which an unfenced INSERT into invoices gets past the guard, each with what the listing then says. docs/guards.md
// has the same list.
var unfenced = map[string]struct{ statement, problem string }{
	"session_replication_role": {"SET LOCAL session_replication_role = replica", ""},
	"disable the trigger":      {"ALTER TABLE invoices DISABLE TRIGGER pglock_guard", "the trigger is disabled: nothing is refused"},
	"disable all triggers":     {"ALTER TABLE invoices DISABLE TRIGGER ALL", "the trigger is disabled: nothing is refused"},
	"for replicas only":        {"ALTER TABLE invoices ENABLE REPLICA TRIGGER pglock_guard", "the trigger is disabled: nothing is refused"},
	"drop the trigger":         {"DROP TRIGGER pglock_guard ON invoices", "not listed"},
	"another table":            {"ALTER TABLE invoices RENAME TO old_invoices; CREATE TABLE invoices (LIKE old_invoices INCLUDING ALL)", "not listed"},
	"other events": {"DROP TRIGGER pglock_guard ON invoices; CREATE TRIGGER pglock_guard BEFORE DELETE ON invoices " +
		"FOR EACH STATEMENT EXECUTE FUNCTION pglock_check_guard('jo\"b\\')", "the trigger was changed: it does not fire at every write"},
	"a declared token": {"", ""},
}

// TestGuard_WhatGetsPastIt: by the owner or a superuser. What can be seen in the catalogue is listed, and guarding again mends it.
func TestGuard_WhatGetsPastIt(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for name, way := range unfenced {
		tx, err := g.conn.Begin(within(t))
		require.NoError(t, err)
		if way.statement == "" {
			require.NoError(t, declare(within(t), tx, g.fence, 2))
		} else {
			exec(t, tx, way.statement)
		}
		exec(t, tx, "INSERT INTO invoices VALUES (2, 'x')")
		problem := g.problem(t, tx, "invoices")
		require.Equal(t, way.problem, problem, name)
		if problem != "" && name != "another table" {
			require.NoError(t, g.fence.GuardTx(within(t), tx, "invoices"), name)
			require.Empty(t, g.problem(t, tx, "invoices"), name)
			_, err = tx.Exec(within(t), "INSERT INTO invoices VALUES (3, 'x')")
			require.Equal(t, "LH001", refusal(t, err).Code, name)
		}
		require.NoError(t, tx.Rollback(within(t)))
	}

	// The owner's way to close the first one.
	tx, err := g.conn.Begin(within(t))
	require.NoError(t, err)
	exec(t, tx, "ALTER TABLE invoices ENABLE ALWAYS TRIGGER pglock_guard; SET LOCAL session_replication_role = replica")
	require.Empty(t, g.problem(t, tx, "invoices"))
	_, err = tx.Exec(within(t), "INSERT INTO invoices VALUES (2, 'x')")
	require.Equal(t, "LH001", refusal(t, err).Code)
	require.NoError(t, tx.Rollback(within(t)))
}

// problem is what the listing says of a table.
func (g *guarded) problem(t testing.TB, tx pgx.Tx, table string) string {
	t.Helper()
	guards, err := g.fence.GuardsTx(within(t), tx)
	require.NoError(t, err)
	var schema string
	require.NoError(t, tx.QueryRow(within(t), "SELECT quote_ident($1)", g.schema).Scan(&schema))
	for _, guard := range guards {
		if guard.Table == schema+"."+table {
			return guard.Problem
		}
	}
	return "not listed"
}

// TestGuard_LaterPartitionsAreListedAndGuardedByTheNextCall: until then they refuse row by row, but for TRUNCATE; children by
// inheritance refuse nothing.
func TestGuard_LaterPartitionsAreListedAndGuardedByTheNextCall(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	exec(t, g.conn, "CREATE TABLE kin_later () INHERITS (kin)")
	const open = "it is a partition or child of a guarded table and has no such guard: guard the parent again"
	want := map[string]string{
		"invoices": "", "payments": "", "months": "", "months_1": "", "months_2": "", "months_2a": "", "parents": "", "kin": "",
		"months_2b": open, "months_3": open, "months_4": open, "kin_later": open,
	}
	writes := map[string]string{
		"INSERT INTO months_3 VALUES (3, 'x')":  "LH001",
		"INSERT INTO months_2b VALUES (2, 'y')": "LH001",
		"INSERT INTO months_4 VALUES (4, 'x')":  "LH001",
		"TRUNCATE months_3":                     "",
		"INSERT INTO kin_later VALUES (1)":      "",
	}
	check := func() {
		tx, err := g.conn.Begin(within(t))
		require.NoError(t, err)
		guards, err := g.fence.GuardsTx(within(t), tx)
		require.NoError(t, err)
		require.Len(t, guards, len(want))
		for table, problem := range want {
			require.Equal(t, problem, g.problem(t, tx, table), table)
		}
		require.NoError(t, tx.Rollback(within(t)))
		for text, code := range writes {
			g.try(t, text, text, func(context.Context, pgx.Tx) error { return nil }, code)
		}
	}
	check()
	for text, code := range map[string]string{"INSERT INTO months_3 VALUES (3, 'x')": "LH002", "INSERT INTO months VALUES (3, 'x')": "LH002"} {
		g.try(t, "stale "+text, text, func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, g.fence, 1) }, code)
	}
	for range 2 {
		for _, table := range []string{"months", "parents"} {
			g.tx(t, g.conn, func(tx pgx.Tx) error { return g.fence.GuardTx(within(t), tx, table) })
		}
		for table := range want {
			want[table] = ""
		}
		for text := range writes {
			writes[text] = "LH001"
		}
		check()
	}

	// A partition takes its guard along when it is detached.
	exec(t, g.conn, "ALTER TABLE months DETACH PARTITION months_1")
	check()
	g.try(t, "detached", "INSERT INTO months_1 VALUES (1, 'x')", func(context.Context, pgx.Tx) error { return nil }, "LH001")
	exec(t, g.conn, "ALTER TABLE months ATTACH PARTITION months_1 FOR VALUES FROM (1) TO (2)")
	check()

	// By way of a parent that is not guarded a statement does not fire the triggers of the partition.
	exec(t, g.conn, "CREATE TABLE years (month int NOT NULL, note text) PARTITION BY LIST (note); ALTER TABLE months DETACH PARTITION months_1;"+
		"ALTER TABLE years ATTACH PARTITION months_1 DEFAULT; INSERT INTO years VALUES (1, 'x')")
	tx, err := g.conn.Begin(within(t))
	require.NoError(t, err)
	require.Contains(t, g.problem(t, tx, "months_1"), "years are not refused: it is not guarded")
	exec(t, tx, "CREATE TABLE years_2 PARTITION OF years FOR VALUES IN ('2')")
	require.Equal(t, "42809", refusal(t, g.fence.GuardTx(within(t), tx, "years_2")).Code)
	require.NoError(t, tx.Rollback(within(t)))
}

// TestGuard_RenamedSchemaRefusesAndADroppedOneIsGone: the functions name the schema, so that a rename closes the tables until the
// migrations are run again; DROP SCHEMA takes the guards along without a word.
func TestGuard_RenamedSchemaRefusesAndADroppedOneIsGone(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	table := quoted("outside of " + g.schema)
	exec(t, g.observer, "CREATE SCHEMA "+table+"; CREATE TABLE "+table+".t (id int)")
	t.Cleanup(func() { exec(t, g.observer, "DROP SCHEMA "+table+" CASCADE") })
	g.tx(t, g.observer, func(tx pgx.Tx) error { return g.fence.GuardTx(within(t), tx, table+".t") })
	insert := "INSERT INTO " + table + ".t VALUES (1)"

	tx, err := g.observer.Begin(within(t))
	require.NoError(t, err)
	renamed := fencing.Fence{Name: g.fence.Name, Schema: "renamed " + g.schema}
	exec(t, tx, "ALTER SCHEMA "+quoted(g.schema)+" RENAME TO "+quoted(renamed.Schema)+"; SET LOCAL search_path = "+quoted(renamed.Schema))
	require.NoError(t, declare(within(t), tx, g.fence, 2))
	exec(t, tx, "SAVEPOINT s")
	_, err = tx.Exec(within(t), insert)
	require.Equal(t, "42P01", refusal(t, err).Code)
	exec(t, tx, "ROLLBACK TO s")
	for _, name := range []string{"0004_create_guards.up.sql", "0005_create_row_guards.up.sql"} {
		text, err := migrations.FS.ReadFile(name)
		require.NoError(t, err)
		exec(t, tx, string(text))
	}
	exec(t, tx, "SAVEPOINT s")
	_, err = tx.Exec(within(t), insert)
	require.Equal(t, "LH001", refusal(t, err).Code)
	exec(t, tx, "ROLLBACK TO s")
	require.NoError(t, renamed.ShareTx(within(t), tx, 2))
	exec(t, tx, insert)
	exec(t, tx, "SET LOCAL client_min_messages = warning; DROP SCHEMA "+quoted(renamed.Schema)+" CASCADE; SET LOCAL pglock.passed TO DEFAULT")
	exec(t, tx, insert)
	require.NoError(t, tx.Rollback(within(t)))
}

// TestGuard_UnguardTakesAllOff, with nothing left in the catalogue.
func TestGuard_UnguardTakesAllOff(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	tx, err := g.conn.Begin(within(t))
	require.NoError(t, err)
	require.ErrorContains(t, fencing.Fence{Name: "other", Schema: g.schema}.UnguardTx(within(t), tx, "months"), "is not guarded by it")
	require.ErrorContains(t, g.fence.UnguardTx(within(t), tx, "customers"), "is not guarded by it")
	for _, table := range []string{"invoices", "payments", "months", "parents"} {
		require.NoError(t, g.fence.UnguardTx(within(t), tx, table))
	}
	guards, err := g.fence.GuardsTx(within(t), tx)
	require.NoError(t, err)
	require.Empty(t, guards)
	var left int
	require.NoError(t, tx.QueryRow(within(t), "SELECT count(*) FROM pg_trigger WHERE tgfoid = 'pglock_check_guard'::regproc").Scan(&left))
	require.Zero(t, left)
	for _, text := range guardedWrites {
		if version(t, g.observer) < 150000 && text[:5] == "MERGE" {
			continue
		}
		exec(t, tx, "SAVEPOINT s")
		require.NoError(t, g.write(within(t), tx, text), text)
		exec(t, tx, "ROLLBACK TO s")
	}
	require.NoError(t, tx.Commit(within(t)))
}

// TestGuard_BadInput: nothing is guarded.
func TestGuard_BadInput(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	f := fencing.Fence{Name: "other", Schema: g.schema}
	exec(t, g.conn, "CREATE FOREIGN DATA WRAPPER "+quoted(g.schema)+"; CREATE SERVER "+quoted(g.schema)+" FOREIGN DATA WRAPPER "+quoted(g.schema)+
		"; CREATE FOREIGN TABLE abroad (id int) SERVER "+quoted(g.schema))
	t.Cleanup(func() { exec(t, g.conn, "DROP FOREIGN DATA WRAPPER "+quoted(g.schema)+" CASCADE") })
	for table, code := range map[string]string{
		"missing":               "42P01",
		"no.such.thing":         "0A000",
		"a b":                   "42602",
		"invoice_view":          "42809",
		"abroad":                "42809",
		"customers_pkey":        "42809",
		"pglock_leases":         "42809",
		"job_fences":            "42809",
		"pg_class":              "42501",
		"invoices":              "42710", // guarded by another fence
		"customers; DROP TABLE": "42602",
	} {
		tx, err := g.conn.Begin(within(t))
		require.NoError(t, err)
		exec(t, tx, "DROP TABLE pg_temp.job_fences")
		err = f.GuardTx(within(t), tx, table)
		require.Equal(t, code, refusal(t, err).Code, "%s: %v", table, err)
		require.NoError(t, tx.Rollback(within(t)))
	}
	require.ErrorContains(t, f.GuardTx(within(t), untouchable{}, ""), "no table given")
	require.ErrorContains(t, f.UnguardTx(within(t), untouchable{}, "a\x00"), "not UTF-8 without NUL")
	require.ErrorContains(t, f.GuardTx(within(t), nil, "invoices"), "the transaction is nil")
	require.ErrorContains(t, f.GuardSQLTx(within(t), nil, "invoices"), "the transaction is nil")
	_, err := fencing.Fence{}.GuardsTx(within(t), untouchable{})
	require.ErrorContains(t, err, "the name is empty")

	dsn, schema := pgtest.Schema(t)
	conn := observe(t, dsn)
	exec(t, conn, "CREATE TABLE "+quoted(schema)+".invoices (id int)")
	err = pgx.BeginFunc(within(t), conn, func(tx pgx.Tx) error {
		return fencing.Fence{Name: "job", Schema: schema}.GuardTx(within(t), tx, quoted(schema)+".invoices")
	})
	require.ErrorContains(t, err, "run: pglock migrate up -schema ")
}

// TestGuard_Privileges: what a role needs to write, to guard, and what it cannot do.
func TestGuard_Privileges(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	home, writer, owner := quoted(g.schema), quoted("writer of "+g.schema), quoted("owner of "+g.schema)
	tables := quoted("tables of " + g.schema)
	for _, role := range []string{writer, owner} {
		exec(t, g.observer, "CREATE ROLE "+role)
		t.Cleanup(func() { exec(t, g.observer, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
	}
	exec(t, g.observer, fmt.Sprintf(`CREATE SCHEMA %[1]s AUTHORIZATION %[2]s; GRANT USAGE ON SCHEMA %[1]s TO %[3]s; SET ROLE %[2]s;
		CREATE TABLE %[1]s.a (id int PRIMARY KEY); CREATE TABLE %[1]s.b (id int REFERENCES %[1]s.a ON DELETE CASCADE);
		INSERT INTO %[1]s.a VALUES (1); INSERT INTO %[1]s.b VALUES (1);
		GRANT INSERT ON %[1]s.b TO %[3]s; GRANT SELECT, DELETE ON %[1]s.a TO %[3]s; RESET ROLE`, tables, owner, writer))

	as := func(role string, work func(tx pgx.Tx) error) error {
		return pgx.BeginFunc(within(t), g.observer, func(tx pgx.Tx) error {
			exec(t, tx, "SET LOCAL ROLE "+role)
			return work(tx)
		})
	}
	statement := func(text string) func(tx pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(within(t), text)
			return err
		}
	}
	denied := func(role string, work func(tx pgx.Tx) error) {
		t.Helper()
		require.Equal(t, "42501", refusal(t, as(role, work)).Code)
	}

	// An owner that did not install the tables needs the schema and the function.
	guard := func(tx pgx.Tx) error { return g.fence.GuardTx(within(t), tx, tables+".b") }
	denied(owner, guard)
	exec(t, g.observer, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", home, owner))
	denied(owner, guard)
	exec(t, g.observer, fmt.Sprintf("GRANT EXECUTE ON FUNCTION %s.pglock_check_guard() TO %s", home, owner))
	require.NoError(t, as(owner, guard))

	// The guard itself asks nothing of the role that writes: not even to find the schema.
	insert := statement("INSERT INTO " + tables + ".b SELECT id FROM " + tables + ".a")
	require.Equal(t, "LH001", refusal(t, as(writer, insert)).Code)
	require.NoError(t, as(writer, func(tx pgx.Tx) error {
		require.NoError(t, declare(within(t), tx, g.fence, 2))
		return insert(tx)
	}))
	// Nor of the table's owner, as whom a cascade runs.
	require.Equal(t, "LH001", refusal(t, as(writer, statement("DELETE FROM "+tables+".a"))).Code)
	require.NoError(t, as(writer, func(tx pgx.Tx) error {
		require.NoError(t, declare(within(t), tx, g.fence, 2))
		return statement("DELETE FROM " + tables + ".a")(tx)
	}))

	// The shared check: the schema, SELECT, and UPDATE of any one column. It cannot lower the fence.
	share := func(tx pgx.Tx) error {
		if err := g.fence.ShareTx(within(t), tx, 2); err != nil {
			return err
		}
		return insert(tx)
	}
	denied(writer, share)
	exec(t, g.observer, fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT ON %[1]s.job_fences TO %[2]s", home, writer))
	denied(writer, share)
	exec(t, g.observer, fmt.Sprintf("GRANT UPDATE (raised_at) ON %s.job_fences TO %s", home, writer))
	require.NoError(t, as(writer, share))
	denied(writer, statement("UPDATE "+home+".job_fences SET token = 1"))
	denied(writer, func(tx pgx.Tx) error { return g.fence.AdvanceTx(within(t), tx, 2) })
	exec(t, g.observer, fmt.Sprintf("GRANT UPDATE (token) ON %s.job_fences TO %s", home, writer))
	require.NoError(t, as(writer, func(tx pgx.Tx) error { return g.fence.AdvanceTx(within(t), tx, 2) }))

	// What a writer cannot do, on its own tables neither: keep a fence locked by a trigger.
	for _, text := range []string{
		"SET LOCAL session_replication_role = replica",
		"ALTER TABLE " + tables + ".b DISABLE TRIGGER ALL",
		"TRUNCATE " + tables + ".b",
		"SELECT FROM " + home + ".pglock_unguard_table('" + tables + ".b')",
		"SELECT FROM " + home + ".pglock_guard_table('" + tables + ".a', 'job')",
		"CREATE TEMPORARY TABLE mine (id int); CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH STATEMENT EXECUTE FUNCTION " + home +
			".pglock_check_guard('job')",
	} {
		denied(writer, statement(text))
	}
	require.NoError(t, as(owner, func(tx pgx.Tx) error {
		return statement("SELECT FROM " + home + ".pglock_unguard_table('" + tables + ".b')")(tx)
	}))
}

// TestGuard_BehindATransactionPooler: one connection of the server for all clients. A pass does not outlive its transaction, however
// that ends.
func TestGuard_BehindATransactionPooler(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	through := pgtest.PgBouncer(t, dsn, pgserver.BouncerOptions{PoolSize: 1}).DSN() + "&default_query_exec_mode=exec"
	a, b := observe(t, through), observe(t, through)
	f := fencing.Fence{Name: "job", Schema: schema}
	table := quoted(schema) + ".invoices"
	exec(t, a, "CREATE TABLE "+table+" (id int); INSERT INTO "+quoted(schema)+".job_fences VALUES ('job', 7)")
	require.NoError(t, pgx.BeginFunc(within(t), a, func(tx pgx.Tx) error { return f.GuardTx(within(t), tx, table) }))
	insert := "INSERT INTO " + table + " VALUES (1)"
	for i := range 12 {
		tx, err := a.Begin(within(t))
		require.NoError(t, err)
		require.NoError(t, f.ShareTx(within(t), tx, 7))
		exec(t, tx, insert)
		switch i % 3 {
		case 0:
			require.NoError(t, tx.Commit(within(t)))
		case 1:
			require.NoError(t, tx.Rollback(within(t)))
		case 2:
			_, err := tx.Exec(within(t), "SELECT 1/0")
			require.Error(t, err)
			require.Error(t, tx.Commit(within(t)))
		}
		_, err = b.Exec(within(t), insert)
		require.Equal(t, "LH001", refusal(t, err).Code)
		var passed string
		require.NoError(t, b.QueryRow(within(t), "SELECT coalesce(current_setting('pglock.passed', true), '')").Scan(&passed))
		require.Empty(t, passed)
	}
}

// TestGuard_LogicalApplyGetsPastIt: a subscriber's worker acts as a replica. What the publisher let pass is not checked again.
func TestGuard_LogicalApplyGetsPastIt(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, map[string]string{"wal_level": "logical"})
	from := observe(t, server.DSN())
	exec(t, from, "CREATE DATABASE subscriber")
	exec(t, from, "CREATE TABLE invoices (id int PRIMARY KEY)")
	exec(t, from, "CREATE PUBLICATION p FOR TABLE invoices")
	exec(t, from, "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
	config := from.Config().Copy()
	config.Database = "subscriber"
	to, err := pgx.ConnectConfig(within(t), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, to.Close(context.Background())) })
	schema := pgtest.MigratedOn(t, fmt.Sprintf("postgres://%s@%s:%d/subscriber?sslmode=disable", config.User, config.Host, config.Port))
	exec(t, to, "CREATE TABLE invoices (id int PRIMARY KEY)")
	f := fencing.Fence{Name: "job", Schema: schema}
	require.NoError(t, pgx.BeginFunc(within(t), to, func(tx pgx.Tx) error { return f.GuardTx(within(t), tx, "public.invoices") }))
	exec(t, to, fmt.Sprintf("CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d user=%s dbname=%s' PUBLICATION p WITH (create_slot = false, copy_data = false)",
		config.Host, config.Port, config.User, from.Config().Database))
	exec(t, from, "INSERT INTO invoices VALUES (1)")
	require.Eventually(t, func() bool {
		var count int
		require.NoError(t, to.QueryRow(within(t), "SELECT count(*) FROM invoices").Scan(&count))
		return count == 1
	}, patience, 10*time.Millisecond)
	_, err = to.Exec(within(t), "INSERT INTO invoices VALUES (2)")
	require.Equal(t, "LH001", refusal(t, err).Code)
	exec(t, to, "ALTER SUBSCRIPTION s DISABLE")
	exec(t, to, "ALTER SUBSCRIPTION s SET (slot_name = NONE)")
	exec(t, to, "DROP SUBSCRIPTION s")
}
