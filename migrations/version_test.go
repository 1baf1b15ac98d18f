package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

func TestVersion_WritesNothing(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	schema = "absent " + schema
	status, err := migrations.Version(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema})
	require.NoError(t, err)
	require.Equal(t, migrations.Status{}, status)
	require.False(t, status.Current())
	require.False(t, one[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema))
}

func TestVersion_TellsDirtyAndSeveralRows(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	run(t, conn, "UPDATE "+quote(schema, "pglock_schema_migrations")+" SET dirty = true")
	status, err := migrations.Version(limit(t), migrations.URL(dsn), options)
	require.NoError(t, err)
	require.Equal(t, migrations.Status{Version: migrations.Newest, Dirty: true}, status)
	require.False(t, status.Current())

	run(t, conn, "INSERT INTO "+quote(schema, "pglock_schema_migrations")+" VALUES (2, false)")
	_, err = migrations.Version(limit(t), migrations.URL(dsn), options)
	require.ErrorContains(t, err, "2 rows")
}
