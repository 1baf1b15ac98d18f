package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

func TestDown_UpDownUpGivesTheSameTables(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	db, options := migrations.URL(dsn), migrations.Options{Schema: schema}

	require.NoError(t, migrations.Down(limit(t), db, options), "nothing to remove")
	var states [][]string
	for version := 1; version <= migrations.Newest; version++ {
		require.NoError(t, migrations.Up(limit(t), db, migrations.Options{Schema: schema, To: version}))
		states = append(states, describe(t, conn, schema))
	}
	for version := migrations.Newest - 1; version >= 1; version-- {
		require.NoError(t, migrations.Down(limit(t), db, migrations.Options{Schema: schema, To: version}))
		require.Equal(t, states[version-1], describe(t, conn, schema))
	}
	require.NoError(t, migrations.Down(limit(t), db, options))
	require.Empty(t, recorded(t, conn, schema))
	require.Equal(t, []string{"pglock_schema_migrations"}, all[string](t, conn,
		"SELECT tablename::text FROM pg_tables WHERE schemaname = $1", schema))
	require.NoError(t, migrations.Up(limit(t), db, options))
	require.Equal(t, states[migrations.Newest-1], describe(t, conn, schema))
}

func TestDown_NeverGoesUp(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema, To: 1}))
	require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema, To: 2}))
	require.Equal(t, "1", recorded(t, connect(t, dsn), schema))
}
