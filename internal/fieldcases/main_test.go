package fieldcases_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	// The tests wait more than they work. The command line overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// patience is how long a test waits for what must come. It bounds a test that fails, and asserts nothing about speed.
const patience = 30 * time.Second

// pause is how often a test looks again.
const pause = 10 * time.Millisecond

// A place is a schema with the tables.
type place struct {
	dsn, schema string
	admin       *pgxpool.Pool // the test's own, never through a fault
}

// install makes a place on the shared server.
func install(t testing.TB) place {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	return at(t, dsn, schema)
}

// installOn makes a place in the schema public of a server or database of the test's own.
func installOn(t testing.TB, dsn string) place {
	t.Helper()
	p := at(t, dsn, migrations.DefaultSchema)
	require.NoError(t, migrations.Up(t.Context(), migrations.Pool(p.admin), migrations.Options{}))
	return p
}

// at is a place whose tables came or will come by other means.
func at(t testing.TB, dsn, schema string) place {
	t.Helper()
	return place{dsn: dsn, schema: schema, admin: pgtest.Pool(t, dsn)}
}

// through is the same place reached by another connection string.
func (p place) through(dsn string) place {
	p.dsn = dsn
	return p
}

// client makes a client with a pool of its own, as another process would have it.
func (p place) client(t testing.TB, config pglock.Config, change ...func(*pgxpool.Config)) *pglock.Client {
	t.Helper()
	settings, err := pgxpool.ParseConfig(p.dsn)
	require.NoError(t, err)
	for _, f := range change {
		f(settings)
	}
	return p.clientOf(t, pgtest.PoolWith(t, settings), config)
}

func (p place) clientOf(t testing.TB, pool *pgxpool.Pool, config pglock.Config) *pglock.Client {
	t.Helper()
	config.Schema = p.schema
	client, err := pglock.New(pool, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = client.Close(ctx) // The test may have broken what it leads to.
	})
	return client
}

// named gives a client's sessions a name in pg_stat_activity.
func named(name string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name }
}

// sql puts the quoted schema in place of %s.
func (p place) sql(text string) string {
	return strings.ReplaceAll(text, "%s", pgx.Identifier{p.schema}.Sanitize())
}

func (p place) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	_, err := p.admin.Exec(t.Context(), p.sql(text), args...)
	require.NoError(t, err)
}

// value reads one value.
func value[T any](t testing.TB, p place, text string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, p.admin.QueryRow(t.Context(), p.sql(text), args...).Scan(&v))
	return v
}

// row is all there is of a lease's row, its version included: equal means that nobody wrote or locked it.
func (p place) row(t testing.TB, name string) string {
	t.Helper()
	return value[string](t, p, "SELECT concat_ws(' ', l::text, l.ctid, l.xmin, l.xmax) FROM %s.pglock_leases AS l WHERE name = $1", name)
}

// now is the database's clock.
func (p place) now(t testing.TB) time.Time {
	t.Helper()
	return value[time.Time](t, p, "SELECT clock_timestamp()")
}

// take acquires at once.
func take(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), name)
	require.NoError(t, err)
	return lease
}

// takeSoon acquires, waiting.
func takeSoon(t testing.TB, c *pglock.Client, name string) *pglock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := c.Acquire(ctx, name)
	require.NoError(t, err)
	return lease
}

// grants acquires and releases n times and returns the last token.
func grants(t testing.TB, c *pglock.Client, name string, n int) fencing.Token {
	t.Helper()
	var token fencing.Token
	for range n {
		lease := take(t, c, name)
		require.Greater(t, lease.Token(), token)
		token = lease.Token()
		require.NoError(t, lease.Release(t.Context()))
	}
	return token
}

// held requires that the name is somebody else's.
func held(t testing.TB, c *pglock.Client, name string) *pglock.HeldError {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), name)
	require.Nil(t, lease)
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	var heldErr *pglock.HeldError
	require.ErrorAs(t, err, &heldErr)
	return heldErr
}

// lost waits for the loss of a lease and returns why.
func lost(t testing.TB, lease *pglock.Lease) *pglock.LostError {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the loss was not noticed")
	}
	var lostErr *pglock.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lostErr)
	return lostErr
}

// receive waits for what another goroutine sends.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	panic("unreachable")
}

// soon waits for a condition.
func soon(t testing.TB, condition func() bool, about ...any) {
	t.Helper()
	require.Eventually(t, condition, patience, pause, about...)
}

// renewedAfter waits until a name was renewed after a time of the database's clock.
func (p place) renewedAfter(t testing.TB, name string, after time.Time) {
	t.Helper()
	soon(t, func() bool {
		var renewed bool
		err := p.admin.QueryRow(t.Context(), p.sql("SELECT renewed_at > $2 FROM %s.pglock_leases WHERE name = $1"), name, after).Scan(&renewed)
		return err == nil && renewed
	}, "no renewal")
}
