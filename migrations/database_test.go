package migrations_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// limit is longer than any test of this package takes, on a busy machine too.
func limit(t *testing.T) context.Context {
	// Not cancelled with the test: clean-up functions use it.
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

func openPool(t *testing.T, dsn string, change func(config *pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	change(config)
	pool, err := pgxpool.NewWithConfig(limit(t), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// run executes statements one by one.
func run(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.Exec(limit(t), statement)
		require.NoError(t, err, statement)
	}
}

// one returns the first value of the only row.
func one[T any](t *testing.T, db querier, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(limit(t), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return value
}

func all[T any](t *testing.T, db querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(limit(t), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return values
}

// quote is an identifier as PostgreSQL writes it.
func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// describe is everything that a migration makes in a schema, one line each: what up, down, up must reproduce.
func describe(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	return all[string](t, conn, `
SELECT concat_ws(' ', c.relkind, c.relname, c.relpersistence, c.reloptions, obj_description(c.oid, 'pg_class'),
    a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::regcollation,
    pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))
FROM pg_class AS c
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
UNION ALL
SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint
WHERE connamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
UNION ALL
SELECT concat_ws(' ', pg_get_functiondef(oid), obj_description(oid, 'pg_proc'), proacl)
FROM pg_proc
WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
UNION ALL
SELECT concat_ws(' ', viewname, definition)
FROM pg_views
WHERE schemaname = $1
ORDER BY 1`, schema)
}

// recorded is the content of the bookkeeping table: "3 f", or "" if there is none.
func recorded(t *testing.T, conn *pgx.Conn, schema string) string {
	t.Helper()
	exists := one[bool](t, conn, "SELECT to_regclass($1) IS NOT NULL", quote(schema, "pglock_schema_migrations"))
	if !exists {
		return ""
	}
	rows := all[string](t, conn,
		"SELECT version || CASE WHEN dirty THEN ' dirty' ELSE '' END FROM "+quote(schema, "pglock_schema_migrations"))
	return strings.Join(rows, ", ")
}

// log keeps what a Logger was told. Safe for concurrent use.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
