package pglock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// An installation is a schema with the tables, and a pool.
type installation struct {
	dsn, schema string
	pool        *pgxpool.Pool
}

func install(t testing.TB) installation {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	return installation{dsn: dsn, schema: schema, pool: pgtest.Pool(t, dsn)}
}

// installOn installs on a server of the test's own.
func installOn(t testing.TB, dsn string) installation {
	t.Helper()
	in := installation{dsn: dsn, schema: "public", pool: pgtest.Pool(t, dsn)}
	require.NoError(t, migrations.Up(t.Context(), migrations.Pool(in.pool), migrations.Options{Schema: in.schema}))
	return in
}

// client makes a client that is closed at the end of the test.
func (in installation) client(t testing.TB, config pglock.Config) *pglock.Client {
	t.Helper()
	return clientOf(t, in.pool, in.schema, config)
}

func clientOf(t testing.TB, pool *pgxpool.Pool, schema string, config pglock.Config) *pglock.Client {
	t.Helper()
	config.Schema = schema
	c, err := pglock.New(pool, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
	})
	return c
}

// row reads one value about a name; %s in the query stands for the schema.
func value[T any](t testing.TB, in installation, sql string, args ...any) T {
	t.Helper()
	var v T
	sql = strings.ReplaceAll(sql, "%s", `"`+strings.ReplaceAll(in.schema, `"`, `""`)+`"`)
	require.NoError(t, in.pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func (in installation) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	sql = strings.ReplaceAll(sql, "%s", `"`+strings.ReplaceAll(in.schema, `"`, `""`)+`"`)
	_, err := in.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func TestNew_RefusesBadConfig(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	for _, c := range []struct {
		about  string
		config pglock.Config
		says   []string
	}{
		{"the relation", pglock.Config{TTL: 9 * time.Second, RenewInterval: 5 * time.Second, RequestTimeout: 5 * time.Second},
			[]string{"TTL 9s", "RenewInterval 5s", "RequestTimeout 5s", "Margin 900ms", "greater than"}},
		{"equality", pglock.Config{TTL: 9 * time.Second, RenewInterval: 3 * time.Second, RequestTimeout: 3 * time.Second, Margin: 3 * time.Second},
			[]string{"greater than"}},
		{"overflow", pglock.Config{RenewInterval: 1<<63 - 1, RequestTimeout: 1<<63 - 1}, []string{"greater than"}},
		{"short TTL", pglock.Config{TTL: time.Millisecond}, []string{"TTL is 1ms", "100ms"}},
		{"long TTL", pglock.Config{TTL: 9000 * time.Hour}, []string{"TTL is 9000h"}},
		{"negative TTL", pglock.Config{TTL: -1}, []string{"TTL"}},
		{"negative", pglock.Config{RenewInterval: -time.Second}, []string{"RenewInterval is -1s"}},
		{"negative poll", pglock.Config{PollInterval: -time.Second}, []string{"PollInterval is -1s"}},
		{"schema", pglock.Config{Schema: strings.Repeat("s", 64)}, []string{"schema has 64 bytes", "63"}},
		{"schema zero byte", pglock.Config{Schema: "a\x00b"}, []string{"zero byte"}},
		{"label", pglock.Config{Label: "\xff"}, []string{"label", "UTF-8"}},
		{"metadata", pglock.Config{Metadata: map[string]string{"k": strings.Repeat("v", 5000)}}, []string{"metadata", "4096"}},
		{"metadata zero byte", pglock.Config{Metadata: map[string]string{"k": "\x00"}}, []string{"metadata", "zero byte"}},
	} {
		_, err := pglock.New(pool, c.config)
		require.Error(t, err, c.about)
		for _, part := range c.says {
			require.ErrorContains(t, err, part, c.about)
		}
	}
	_, err = pglock.New(nil, pglock.Config{})
	require.ErrorContains(t, err, "pool is nil")
}

func TestNew_EveryTTLAloneGivesAWorkingConfig(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	for ttl := 100 * time.Millisecond; ttl <= 365*24*time.Hour; ttl = ttl * 3 / 2 {
		_, err := pglock.New(pool, pglock.Config{TTL: ttl})
		require.NoError(t, err, "%v", ttl)
	}
}

func TestAcquire_RefusesBadNamesBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	c, err := pglock.New(pool, pglock.Config{})
	require.NoError(t, err)
	for _, name := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("n", 256)} {
		_, err := c.TryAcquire(t.Context(), name)
		require.ErrorContains(t, err, "pglock: name", "%q", name)
		_, err = c.Acquire(t.Context(), name)
		require.ErrorContains(t, err, "pglock: name", "%q", name)
	}
	require.Zero(t, pool.Stat().NewConnsCount())
}

func TestAcquire_TakesAnyName(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	for _, name := range []string{"a", `'; DROP TABLE pglock_leases; --`, `"`, `\`, "日本語", "  ", "{schema}", "$1", strings.Repeat("n", 255), "a\nb"} {
		l, err := c.TryAcquire(t.Context(), name)
		require.NoError(t, err, "%q", name)
		require.Equal(t, name, value[string](t, in, "SELECT name FROM %s.pglock_leases WHERE name = $1", name))
		require.EqualValues(t, 1, l.Token())
		require.NoError(t, l.Release(t.Context()))
	}
}

func TestClient_CheckNamesTheCommandWhenNotMigrated(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	c := clientOf(t, pgtest.Pool(t, dsn), schema, pglock.Config{})
	for _, err := range []error{
		c.Check(t.Context()),
		func() error { _, err := c.TryAcquire(t.Context(), "n"); return err }(),
		func() error { _, err := c.Acquire(t.Context(), "n"); return err }(),
	} {
		require.ErrorIs(t, err, pglock.ErrNotMigrated)
		require.ErrorContains(t, err, "pglock migrate up -schema")
		require.ErrorContains(t, err, fmt.Sprintf("%q", schema))
	}
}

func TestClient_CloseReleasesWhatIsHeldAndLeavesThePool(t *testing.T) {
	t.Parallel()
	in := install(t)
	c := in.client(t, pglock.Config{})
	var leases []*pglock.Lease
	for i := range 50 {
		l, err := c.TryAcquire(t.Context(), fmt.Sprint("n", i))
		require.NoError(t, err)
		leases = append(leases, l)
	}
	require.NoError(t, c.Close(t.Context()))
	for _, l := range leases {
		require.ErrorIs(t, l.Err(), pglock.ErrReleased)
		require.ErrorIs(t, context.Cause(l.Context()), pglock.ErrReleased)
	}
	require.Equal(t, 0, value[int](t, in, "SELECT count(*) FROM %s.pglock_leases WHERE expires_at IS NOT NULL"))
	require.Zero(t, in.pool.Stat().AcquiredConns())
	_, err := c.TryAcquire(t.Context(), "n")
	require.ErrorIs(t, err, pglock.ErrClosed)
	_, err = c.Acquire(t.Context(), "n")
	require.ErrorIs(t, err, pglock.ErrClosed)
	require.NoError(t, c.Close(t.Context()), "the second call changes nothing")
}

func TestClient_CloseEndsAWaitingAcquire(t *testing.T) {
	t.Parallel()
	in := install(t)
	holder := in.client(t, pglock.Config{})
	_, err := holder.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	c := in.client(t, pglock.Config{PollInterval: time.Hour})
	require.NoError(t, c.Check(t.Context()))
	ended := make(chan error)
	go func() { _, err := c.Acquire(context.Background(), "n"); ended <- err }()
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, <-ended, pglock.ErrClosed)
}

// The classic wrong order of defers: each release says that the pool was closed, and the row is free all the same.
func TestClient_CloseAfterThePoolFreesWhatIsHeld(t *testing.T) {
	t.Parallel()
	in := install(t)
	pool, err := pgxpool.New(t.Context(), in.dsn)
	require.NoError(t, err)
	c, err := pglock.New(pool, pglock.Config{Schema: in.schema})
	require.NoError(t, err)
	take(t, c, "n")
	pool.Close()
	require.ErrorContains(t, c.Close(t.Context()), "closed pool")
	require.True(t, value[bool](t, in, "SELECT expires_at IS NULL FROM %s.pglock_leases"))
}
