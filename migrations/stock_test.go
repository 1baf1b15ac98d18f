package migrations_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5" // the stock driver, as its command line has it
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

// stock is golang-migrate as its command line runs it, with our bookkeeping table.
func stock(t *testing.T, dsn, schema string) *migrate.Migrate {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Scheme = "pgx5"
	u.Path = "/" + config.Database
	query := u.Query()
	query.Set("x-migrations-table", "pglock_schema_migrations")
	query.Set("search_path", quote(schema))
	u.RawQuery = query.Encode()
	files, err := iofs.New(migrations.FS, ".")
	require.NoError(t, err)
	m, err := migrate.NewWithSourceInstance("iofs", files, u.String())
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = m.Close() })
	return m
}

// stockSchema is a schema without a blank in its name: golang-migrate writes the blank of a URL as +, and pgx reads that as it is.
func stockSchema(t *testing.T) (dsn, schema string) {
	t.Helper()
	dsn, base := pgtest.Schema(t)
	schema = "stock_" + strings.ReplaceAll(base, " ", "_")
	conn := connect(t, dsn)
	run(t, conn, "CREATE SCHEMA "+quote(schema))
	t.Cleanup(func() { run(t, conn, "DROP SCHEMA "+quote(schema)+" CASCADE") })
	return dsn, schema
}

// stockKey is the key of the lock that stock takes.
func stockKey(t *testing.T, conn *pgx.Conn, schema string) string {
	t.Helper()
	key, err := database.GenerateAdvisoryLockId("/"+conn.Config().Database, schema, "pglock_schema_migrations")
	require.NoError(t, err)
	return key
}

func TestStock_AndOursContinueEachOther(t *testing.T) {
	t.Parallel()
	dsn, schema := stockSchema(t)
	conn := connect(t, dsn)
	db, options := migrations.URL(dsn), migrations.Options{Schema: schema}
	m := stock(t, dsn, schema)

	require.NoError(t, m.Up())
	made := describe(t, conn, schema)
	require.NoError(t, migrations.Up(limit(t), db, options))
	require.Equal(t, made, describe(t, conn, schema))
	require.NoError(t, migrations.Down(limit(t), db, migrations.Options{Schema: schema, To: 2}))
	require.NoError(t, m.Steps(-1))
	require.Equal(t, "1", recorded(t, conn, schema))
	require.NoError(t, migrations.Up(limit(t), db, migrations.Options{Schema: schema, To: 2}))
	require.NoError(t, m.Up())
	require.ErrorIs(t, m.Up(), migrate.ErrNoChange)
	require.Equal(t, made, describe(t, conn, schema))
	require.NoError(t, m.Down())
	require.NoError(t, migrations.Down(limit(t), db, options))
	require.NoError(t, migrations.Up(limit(t), db, options))
	require.ErrorIs(t, m.Up(), migrate.ErrNoChange)
	require.Equal(t, made, describe(t, conn, schema))
}

// TestStock_DirtyVersionIsHealed: every state that a killed stock run can leave, with the file applied and not applied.
func TestStock_DirtyVersionIsHealed(t *testing.T) {
	t.Parallel()
	dsn, schema := stockSchema(t)
	conn := connect(t, dsn)
	db, options := migrations.URL(dsn), migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), db, options))
	made := describe(t, conn, schema)

	for installed := 0; installed <= migrations.Newest; installed++ {
		// Dirty v: v was being made (v-1 or v is there) or v+1 was being removed (v or v+1 is there).
		for dirty := installed - 1; dirty <= installed+1; dirty++ {
			if dirty > migrations.Newest {
				continue
			}
			mark := func() {
				require.NoError(t, migrations.Up(limit(t), db, options))
				require.NoError(t, migrations.Down(limit(t), db, migrations.Options{Schema: schema, To: installed}))
				version := dirty
				if dirty <= 0 {
					version = database.NilVersion
				}
				table := quote(schema, "pglock_schema_migrations")
				run(t, conn, "TRUNCATE "+table, fmt.Sprintf("INSERT INTO %s VALUES (%d, true)", table, version))
			}
			mark()
			var told log
			require.NoError(t, migrations.Up(limit(t), db, migrations.Options{Schema: schema, Logger: told.logger()}))
			require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
			require.Equal(t, made, describe(t, conn, schema), "%d installed, %d dirty", installed, dirty)
			require.Contains(t, told.String(), "left dirty")

			mark()
			require.NoError(t, migrations.Down(limit(t), db, options))
			require.Empty(t, recorded(t, conn, schema))
			require.Len(t, all[string](t, conn, "SELECT tablename::text FROM pg_tables WHERE schemaname = $1", schema), 1)

			mark()
			require.NoError(t, migrations.Down(limit(t), db, migrations.Options{Schema: schema, To: 2}))
			require.Equal(t, "2", recorded(t, conn, schema))
			require.Len(t, all[string](t, conn, "SELECT tablename::text FROM pg_tables WHERE schemaname = $1", schema), 3)
		}
	}
}

// TestStock_RunInProgressExcludesOurs: a stock run marks its version dirty, under its lock. That is not a version left dirty.
func TestStock_RunInProgressExcludesOurs(t *testing.T) {
	t.Parallel()
	dsn, schema := stockSchema(t)
	conn := connect(t, dsn)
	m := stock(t, dsn, schema)
	blocker := connect(t, dsn)
	// The stock run makes job_fences and waits for us to give the name free.
	run(t, blocker, "BEGIN", "CREATE TABLE "+quote(schema, "job_fences")+" ()")
	stockDone := make(chan error, 1)
	go func() { stockDone <- m.Up() }()
	require.Eventually(t, func() bool { return recorded(t, conn, schema) == "2 dirty" }, 20*time.Second, 5*time.Millisecond)

	oursDone := make(chan error, 1)
	go func() { oursDone <- migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema}) }()
	select {
	case err := <-oursDone:
		t.Fatalf("did not wait for the stock run: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	run(t, blocker, "ROLLBACK")
	require.NoError(t, <-stockDone)
	require.NoError(t, <-oursDone)
	require.Equal(t, strconv.Itoa(migrations.Newest), recorded(t, conn, schema))
}

// TestStock_VersionInTheMiddleOfItsTruncateIsNotZero: the stock drivers replace the version by TRUNCATE and INSERT. Who waits for
// that with an older snapshot sees an empty table, takes it for version 0, and Down would say that all is done.
func TestStock_VersionInTheMiddleOfItsTruncateIsNotZero(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	pool := openPool(t, dsn, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	db, options := migrations.Pool(pool), migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), db, options))
	table := quote(schema, "pglock_schema_migrations")

	replace := func(call func() error) error {
		done := make(chan error, 1)
		run(t, conn, "BEGIN", "TRUNCATE "+table, fmt.Sprintf("INSERT INTO %s VALUES (%d, false)", table, migrations.Newest))
		go func() { done <- call() }()
		require.Eventually(t, func() bool {
			return one[bool](t, connect(t, dsn), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass)", table)
		}, 20*time.Second, 5*time.Millisecond)
		run(t, conn, "COMMIT")
		return <-done
	}
	var status migrations.Status
	require.NoError(t, replace(func() (err error) {
		status, err = migrations.Version(limit(t), db, options)
		return err
	}))
	require.Equal(t, migrations.Newest, status.Version)
	require.NoError(t, replace(func() error { return migrations.Up(limit(t), db, options) }))
	require.NoError(t, replace(func() error { return migrations.Down(limit(t), db, options) }))
	require.Empty(t, recorded(t, conn, schema))
}
