package roles

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// limit is longer than any test takes.
func limit(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// unique makes a name that no other run on the same server has.
func unique(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:10]) }

// newDatabase makes a database on the shared server, dropped at the end of the test.
func newDatabase(t *testing.T) (dsn string) {
	t.Helper()
	server := pgtest.Server(t).DSN()
	name := unique("leasehold")
	execute(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return with(t, server, func(u *url.URL) { u.Path = "/" + name })
}

// with changes a DSN that is a URL.
func with(t testing.TB, dsn string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	change(u)
	return u.String()
}

// as is a DSN for another role, under a search_path.
func as(t testing.TB, dsn, role, searchPath string) string {
	t.Helper()
	return with(t, dsn, func(u *url.URL) {
		if role != "" {
			u.User = url.User(role)
		}
		query := u.Query()
		if searchPath != "" {
			query.Set("search_path", searchPath)
		}
		u.RawQuery = query.Encode()
	})
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(limit(t), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// execute runs SQL as simple queries on a connection of its own.
func execute(t testing.TB, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	require.NoError(t, err)
}

// transact runs work in a transaction that is committed.
func transact(t testing.TB, pool *pgxpool.Pool, work func(tx pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginFunc(limit(t), pool, work)
}

// one is the first value of the only row.
func one[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	rows, err := conn.Query(limit(t), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err, sql)
	return value
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }
