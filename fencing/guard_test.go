package fencing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// A guarded is a schema with guarded tables of every kind, and a connection that writes to them.
type guarded struct {
	dsn, schema string
	fence       fencing.Fence
	conn        *pgx.Conn
	observer    *pgx.Conn
}

// guardedTables is what the writes below write to. All are guarded by the fence but customers, whose rows take
// those of payments with them.
const guardedTables = `
CREATE TABLE invoices (id int PRIMARY KEY, note text);
CREATE TABLE customers (id int PRIMARY KEY);
CREATE TABLE payments (customer int REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE months (month int NOT NULL, note text) PARTITION BY RANGE (month);
CREATE TABLE months_1 PARTITION OF months FOR VALUES FROM (1) TO (2);
CREATE TABLE months_2 PARTITION OF months FOR VALUES FROM (2) TO (3) PARTITION BY LIST (note);
CREATE TABLE months_2a PARTITION OF months_2 FOR VALUES IN ('old', 'x');
CREATE TABLE parents (id int);
CREATE TABLE kin () INHERITS (parents);
CREATE VIEW invoice_view AS SELECT id, note FROM invoices;
CREATE TABLE ruled (id int);
CREATE RULE ruled AS ON INSERT TO ruled DO INSTEAD INSERT INTO invoices VALUES (NEW.id, 'rule');
CREATE FUNCTION writes() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO invoices VALUES (50, ''function''); END';
CREATE FUNCTION deep() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS
    'BEGIN BEGIN PERFORM writes(); EXCEPTION WHEN division_by_zero THEN NULL; END; END';
INSERT INTO invoices VALUES (1, 'old');
INSERT INTO customers VALUES (1), (2);
INSERT INTO payments VALUES (1), (2);
INSERT INTO months VALUES (1, 'old'), (2, 'old');
INSERT INTO kin VALUES (1)`

// later is done after the tables were guarded.
const later = `
CREATE TABLE months_3 PARTITION OF months FOR VALUES FROM (3) TO (4);
CREATE TABLE months_4 (LIKE months);
ALTER TABLE months ATTACH PARTITION months_4 FOR VALUES FROM (4) TO (5);
CREATE TABLE months_2b PARTITION OF months_2 FOR VALUES IN ('y');
INSERT INTO pg_temp.job_fences VALUES ('job', 99)`

// guardedWrites are statements that write to a guarded table.
var guardedWrites = map[string]string{
	"insert":                  "INSERT INTO invoices VALUES (2, 'x')",
	"insert of no row":        "INSERT INTO invoices SELECT 3, 'x' WHERE false",
	"update":                  "UPDATE invoices SET note = 'x'",
	"update of no row":        "UPDATE invoices SET note = 'x' WHERE false",
	"delete":                  "DELETE FROM invoices",
	"truncate":                "TRUNCATE invoices",
	"insert on conflict":      "INSERT INTO invoices VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET note = 'x'",
	"insert or nothing":       "INSERT INTO invoices VALUES (1, 'x') ON CONFLICT DO NOTHING",
	"insert in a CTE":         "WITH w AS (INSERT INTO invoices VALUES (4, 'x') RETURNING id) SELECT FROM w",
	"delete in an unused CTE": "WITH w AS (DELETE FROM invoices) SELECT 1",
	"by a view":               "INSERT INTO invoice_view VALUES (5, 'x')",
	"by a rule":               "INSERT INTO ruled VALUES (6)",
	"by a function":           "SELECT writes()",
	"by functions in a block": "SELECT deep()",
	"by a DO block":           "DO 'BEGIN INSERT INTO invoices VALUES (7); END'",
	"by EXECUTE":              "EXECUTE prepared",
	"by EXPLAIN ANALYZE":      "EXPLAIN ANALYZE INSERT INTO invoices VALUES (9)",
	"two statements":          "SELECT 1; INSERT INTO invoices VALUES (10)",
	"cascade of a delete":     "DELETE FROM customers WHERE id = 1",
	"cascade of an update":    "UPDATE customers SET id = 3 WHERE id = 2",
	"cascade of a truncate":   "TRUNCATE customers CASCADE",
	"by the partitioned":      "INSERT INTO months VALUES (1, 'x')",
	"to a partition":          "INSERT INTO months_1 VALUES (1, 'x')",
	"to a sub-partition":      "INSERT INTO months_2a VALUES (2, 'x')",
	"to a partitioned one":    "UPDATE months_2 SET note = 'x'",
	"across partitions":       "UPDATE months SET month = 2 WHERE month = 1",
	"truncate of a partition": "TRUNCATE months_1",
	"truncate of partitions":  "TRUNCATE months",
	"to a later sub-one":      "INSERT INTO months_2b VALUES (2, 'y')",
	"to a later partition":    "INSERT INTO months_3 VALUES (3, 'x')",
	"to an attached one":      "INSERT INTO months_4 VALUES (4, 'x')",
	"by way of a parent":      "INSERT INTO months VALUES (4, 'x')",
	"to a parent":             "UPDATE parents SET id = 2",
	"to a child":              "DELETE FROM kin",
	"copy":                    "COPY invoices FROM STDIN\n3\tx\n",
	"copy to a partition":     "COPY months_1 FROM STDIN\n1\tx\n",
	"copy to a later one":     "COPY months_3 FROM STDIN\n3\tx\n",
	"merge":                   "MERGE INTO invoices AS i USING customers AS c ON i.id = c.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (c.id, 'x')",
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	g := &guarded{dsn: dsn, schema: schema, conn: observe(t, dsn), observer: observe(t, dsn), fence: fencing.Fence{Name: `jo"b\`, Schema: schema}}
	for _, conn := range []*pgx.Conn{g.conn, g.observer} {
		exec(t, conn, "SET search_path = "+quoted(schema)+", pg_temp")
	}
	exec(t, g.observer, guardedTables)
	exec(t, g.observer, "INSERT INTO job_fences VALUES ($1, 2), ('other', 2)", g.fence.Name)
	for _, table := range []string{"invoices", "payments", "months", "parents"} {
		g.tx(t, g.observer, func(tx pgx.Tx) error { return g.fence.GuardTx(within(t), tx, table) })
	}
	// What a session may do to confuse a function that looks things up by their bare names.
	exec(t, g.conn, "CREATE TEMPORARY TABLE job_fences (name text, token bigint)")
	exec(t, g.conn, later)
	exec(t, g.conn, "PREPARE prepared AS INSERT INTO invoices VALUES (8)")
	return g
}

// exec is for what has to work. Without arguments text may be several statements.
func exec(t testing.TB, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, text string, args ...any) {
	t.Helper()
	_, err := db.Exec(within(t), text, args...)
	require.NoError(t, err, text)
}

func (g *guarded) tx(t testing.TB, conn *pgx.Conn, work func(tx pgx.Tx) error) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(within(t), conn, work))
}

// write runs one of the statements. The data of COPY are its further lines.
func (g *guarded) write(ctx context.Context, tx pgx.Tx, text string) error {
	if text, data, ok := strings.Cut(text, "\n"); ok {
		_, err := tx.Conn().PgConn().CopyFrom(ctx, strings.NewReader(data), text)
		return err
	}
	_, err := tx.Exec(ctx, text)
	return err
}

// declare is what a check does, without the check.
func declare(ctx context.Context, tx pgx.Tx, f fencing.Fence, token fencing.Token) error {
	_, err := tx.Exec(ctx, declareSQL, f.Schema, f.Name, int64(token))
	return err
}

const declareSQL = "SELECT set_config('pglock.passed', jsonb_build_object(quote_ident($1::text) || '.' || $2::text, $3::bigint)::text, true)"

// refusal is the SQLSTATE of a refusal, and the error itself for its texts.
func refusal(t testing.TB, err error) *pgconn.PgError {
	t.Helper()
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	return pg
}

// TestGuard_EveryWriteNeedsThePassedFence: every kind of write, by a transaction that did nothing, that passed another fence, whose
// token is stale or from nowhere, whose pass was undone, and by those that passed.
func TestGuard_EveryWriteNeedsThePassedFence(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	before := map[string]struct {
		prepare func(ctx context.Context, tx pgx.Tx) error
		code    string // "" passes
	}{
		"nothing": {func(context.Context, pgx.Tx) error { return nil }, "LH001"},
		"other fence": {func(ctx context.Context, tx pgx.Tx) error {
			return fencing.Fence{Name: "other", Schema: g.schema}.AdvanceTx(ctx, tx, 2)
		}, "LH001"},
		"rolled back": {func(ctx context.Context, tx pgx.Tx) error {
			exec(t, tx, "SAVEPOINT s")
			if err := g.fence.ShareTx(ctx, tx, 2); err != nil {
				return err
			}
			exec(t, tx, "ROLLBACK TO s")
			return nil
		}, "LH001"},
		"refused": {func(ctx context.Context, tx pgx.Tx) error {
			require.ErrorIs(t, g.fence.AdvanceTx(ctx, tx, 1), fencing.ErrStale)
			return nil
		}, "LH001"},
		"not raised": {func(ctx context.Context, tx pgx.Tx) error {
			require.ErrorIs(t, g.fence.ShareTx(ctx, tx, 3), fencing.ErrNotRaised)
			return nil
		}, "LH001"},
		"reset": {func(ctx context.Context, tx pgx.Tx) error {
			if err := g.fence.ShareTx(ctx, tx, 2); err != nil {
				return err
			}
			exec(t, tx, "SET LOCAL pglock.passed TO DEFAULT")
			return nil
		}, "LH001"},
		"share":   {func(ctx context.Context, tx pgx.Tx) error { return g.fence.ShareTx(ctx, tx, 2) }, ""},
		"advance": {func(ctx context.Context, tx pgx.Tx) error { return g.fence.AdvanceTx(ctx, tx, 2) }, ""},
		"raised":  {func(ctx context.Context, tx pgx.Tx) error { return g.fence.AdvanceTx(ctx, tx, 3) }, ""},
		"strict":  {func(ctx context.Context, tx pgx.Tx) error { return g.fence.AdvanceStrictTx(ctx, tx, 3) }, ""},
		"two fences": {func(ctx context.Context, tx pgx.Tx) error {
			if err := g.fence.ShareTx(ctx, tx, 2); err != nil {
				return err
			}
			return fencing.Fence{Name: "other", Schema: g.schema}.AdvanceTx(ctx, tx, 2)
		}, ""},
		"savepoint": {func(ctx context.Context, tx pgx.Tx) error {
			exec(t, tx, "SAVEPOINT s")
			if err := g.fence.ShareTx(ctx, tx, 2); err != nil {
				return err
			}
			exec(t, tx, "RELEASE s; SAVEPOINT s2; ROLLBACK TO s2")
			return nil
		}, ""},
		"by hand": {func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, g.fence, 2) }, ""},
	}
	for state, b := range before {
		for name, text := range guardedWrites {
			g.try(t, state+"/"+name, text, b.prepare, b.code)
		}
	}
}

// try runs a write in a transaction of every isolation level.
func (g *guarded) try(t *testing.T, label, text string, prepare func(ctx context.Context, tx pgx.Tx) error, code string) {
	t.Helper()
	if strings.HasPrefix(text, "MERGE") && version(t, g.observer) < 150000 {
		return
	}
	for _, level := range levels {
		tx, err := g.conn.BeginTx(within(t), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
		require.NoError(t, err)
		require.NoError(t, prepare(within(t), tx), label)
		err = g.write(within(t), tx, text)
		if code == "" {
			require.NoError(t, err, "%s at %s", label, level)
		} else {
			require.Equal(t, code, refusal(t, err).Code, "%s at %s: %v", label, level, err)
		}
		require.NoError(t, tx.Rollback(within(t)))
	}
}

func version(t testing.TB, conn *pgx.Conn) (number int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(within(t), "SELECT current_setting('server_version_num')::int").Scan(&number))
	return number
}

// TestGuard_DoesNotTrustTheDeclaration: a transaction that says it passed, and did not, is checked all the same, and keeps the fence
// locked. Partitions that were added later are left out: there, a declaration is trusted.
func TestGuard_DoesNotTrustTheDeclaration(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for name, text := range guardedWrites {
		if strings.Contains(name, "later") || strings.Contains(name, "attached") {
			continue
		}
		g.try(t, name, text, func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, g.fence, 1) }, "LH002")
		g.try(t, name, text, func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, g.fence, 3) }, "LH003")
	}
	const insert = "INSERT INTO invoices VALUES (2, 'x')"
	for _, garbage := range []string{"x", "[1]", `{"a": {}}`, "7", "null"} {
		tx, err := g.conn.Begin(within(t))
		require.NoError(t, err)
		exec(t, tx, "SELECT set_config('pglock.passed', $1, true)", garbage)
		require.Error(t, g.write(within(t), tx, insert), garbage)
		require.NoError(t, tx.Rollback(within(t)))
	}

	tx, err := g.conn.Begin(within(t))
	require.NoError(t, err)
	require.NoError(t, declare(within(t), tx, g.fence, 2))
	exec(t, tx, insert)
	granted := make(chan error, 1)
	go func() {
		_, err := g.observer.Exec(within(t), "UPDATE job_fences SET token = 3 WHERE name = $1", g.fence.Name)
		granted <- err
	}()
	require.True(t, untilBlockedOr(t, observe(t, g.dsn), int32(g.observer.PgConn().PID()), granted), "the grant did not wait")
	require.NoError(t, tx.Commit(within(t)))
	require.NoError(t, <-granted)

	exec(t, g.observer, "DELETE FROM job_fences WHERE name = $1", g.fence.Name)
	g.try(t, "deleted", insert, func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, g.fence, 3) }, "LH003")
}

// TestGuard_RefusalSaysWhatToDo: message, detail and hint name table, fence, tokens and the way out.
func TestGuard_RefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for token, want := range map[fencing.Token]string{
		0: `INSERT on %s.invoices refused: this transaction has not passed the fence "jo"b\"`,
		1: `INSERT on %s.invoices refused: token 1 for "jo"b\" is stale: the fence is at 2`,
		3: `INSERT on %s.invoices refused: the fence "jo"b\" is at 2, not raised to token 3`,
	} {
		tx, err := g.conn.Begin(within(t))
		require.NoError(t, err)
		detail := "Passed in this transaction: nothing."
		if token != 0 {
			require.NoError(t, declare(within(t), tx, g.fence, token))
			var declared string
			require.NoError(t, tx.QueryRow(within(t), "SELECT current_setting('pglock.passed')").Scan(&declared))
			detail = "Passed in this transaction: " + declared + "."
		}
		_, err = tx.Exec(within(t), "INSERT INTO invoices VALUES (2, 'x')")
		pg := refusal(t, err)
		var schema string
		require.NoError(t, g.observer.QueryRow(within(t), "SELECT quote_ident($1)", g.schema).Scan(&schema))
		require.Equal(t, fmt.Sprintf(want, schema), pg.Message)
		require.Equal(t, detail, pg.Detail)
		require.NotEmpty(t, pg.Hint)
		require.Equal(t, "invoices", pg.TableName)
		require.Equal(t, g.schema, pg.SchemaName)
		require.Equal(t, "ERROR", pg.Severity)
		_, err = tx.Exec(within(t), "SELECT 1")
		require.Equal(t, "25P02", refusal(t, err).Code, "the transaction is over, whatever its caller makes of the error")
		require.NoError(t, tx.Rollback(within(t)))
	}
}
