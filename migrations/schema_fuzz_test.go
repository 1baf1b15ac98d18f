package migrations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

// FuzzSchema: the name of a schema is refused with nothing sent, or all tables are made in a schema of exactly that name, and leases,
// fences and guards work there.
func FuzzSchema(f *testing.F) {
	for _, schema := range []string{
		"plain", `a"b`, "a.b", "E'\\'", "$$", "$check$", "%I%1$I%L", "{schema}", "\r\n-- x", "*/; --", "é\u202e", "\U0010ffff\ufeff", " A", "pglock_guards", "U&'\\0041'",
		strings.Repeat("x", 63), strings.Repeat(`"`, 63), "\x01", "select",
		// Refused, or none of its own:
		"", "a\x00", "\xff", "$user", "pg_x", "PG_X", "information_schema", "pg_temp", strings.Repeat("x", 64),
	} {
		f.Add(schema)
	}
	dsn := fuzzDatabase(f)
	pool := pgtest.Pool(f, dsn)
	f.Fuzz(func(t *testing.T, schema string) {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		if schema == migrations.DefaultSchema {
			return
		}
		options := migrations.Options{Schema: schema}
		script, err := migrations.Script(options)
		wrong := !utf8.ValidString(schema) || strings.ContainsRune(schema, 0) || len(schema) > 63 || schema == "$user" ||
			strings.HasPrefix(schema, "pg_") || schema == "information_schema"
		require.Equal(t, wrong, err != nil, "%q: %v", schema, err)
		if wrong {
			require.ErrorContains(t, err, "migrations: schema ")
			require.ErrorContains(t, migrations.Up(ctx, migrations.Pool(pool), options), "migrations: schema ")
			return
		}
		if schema == "" {
			return // The default.
		}
		conn := connectFuzz(ctx, t, dsn)
		before := namespaces(ctx, t, conn)
		if before[schema] {
			return
		}
		defer func() {
			_, err := conn.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+quote(schema)+" CASCADE")
			require.NoError(t, err)
		}()
		_, err = conn.PgConn().Exec(ctx, script).ReadAll()
		require.NoError(t, err, "%q", schema)
		after := namespaces(ctx, t, conn)
		before[schema] = true
		require.Equal(t, before, after, "that schema and no other")
		require.NoError(t, migrations.Up(ctx, migrations.Pool(pool), options))
		status, err := migrations.Version(ctx, migrations.Pool(pool), options)
		require.NoError(t, err)
		require.True(t, status.Current())
		usable(ctx, t, conn, dsn, schema)
	})
}

// fuzzDatabase is one of this process: several fuzz at once on one server, each of which looks at all schemas.
func fuzzDatabase(f *testing.F) (dsn string) {
	f.Helper()
	server, err := url.Parse(pgtest.Server(f).DSN())
	require.NoError(f, err)
	name := "fuzz_" + strings.ToLower(rand.Text())
	run := func(sql string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, server.String())
		require.NoError(f, err)
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, sql)
		require.NoError(f, err)
	}
	run("CREATE DATABASE " + name)
	f.Cleanup(func() { run("DROP DATABASE " + name + " WITH (FORCE)") })
	mine := *server
	mine.Path = "/" + name
	return mine.String()
}

func connectFuzz(ctx context.Context, t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func namespaces(ctx context.Context, t *testing.T, conn *pgx.Conn) map[string]bool {
	t.Helper()
	rows, err := conn.Query(ctx, "SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// usable takes a lease there, passes its fence and writes to a guarded table.
func usable(ctx context.Context, t *testing.T, conn *pgx.Conn, dsn, schema string) {
	t.Helper()
	pool := pgtest.Pool(t, dsn)
	client, err := pglock.New(pool, pglock.Config{Schema: schema})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.WithoutCancel(ctx))) }()
	lease, err := client.TryAcquire(ctx, "job")
	require.NoError(t, err)
	table := quote(schema, "invoices")
	_, err = conn.Exec(ctx, "CREATE TABLE "+table+" (id int)")
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return lease.Fence().GuardTx(ctx, tx, table) }))
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.NoError(t, lease.ShareTx(ctx, tx))
		_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err, "what the check declares is what the guard looks for")
		list, err := lease.Fence().GuardsTx(ctx, tx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Empty(t, list[0].Problem)
		return nil
	}))
	other := fencing.Fence{Name: "other", Schema: schema}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		require.NoError(t, other.CreateTx(ctx, tx))
		require.NoError(t, other.AdvanceTx(ctx, tx, lease.Token()))
		_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES (2)")
		return err
	})
	var state interface{ SQLState() string }
	require.True(t, errors.As(err, &state), "%v", err)
	require.Equal(t, "LH001", state.SQLState())
	require.NoError(t, lease.Release(ctx))
}
