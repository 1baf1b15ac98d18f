package migrations_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

// TestUp_TableOfAnotherShapeIsAnErrorAndNothingIsRecorded: IF NOT EXISTS would accept each of these.
func TestUp_TableOfAnotherShapeIsAnErrorAndNothingIsRecorded(t *testing.T) {
	t.Parallel()
	const leases = ` (name text PRIMARY KEY, token bigint NOT NULL, holder uuid NOT NULL, label text NOT NULL, metadata jsonb NOT NULL,
		acquired_at timestamptz NOT NULL, renewed_at timestamptz NOT NULL, expires_at timestamptz`
	for name, test := range map[string]struct{ table, kind, definition, says, recorded string }{
		"columns of others":   {"job_fences", "TABLE", "(id int)", "column name is missing", "1"},
		"another type":        {"job_fences", "TABLE", "(name text PRIMARY KEY, token int NOT NULL, raised_at timestamptz NOT NULL)", "column token is integer, want bigint", "1"},
		"no key":              {"job_fences", "TABLE", "(name text NOT NULL, token bigint NOT NULL, raised_at timestamptz NOT NULL)", "column name is not unique", "1"},
		"a wider key":         {"job_fences", "TABLE", "(name text, token bigint, raised_at timestamptz NOT NULL, PRIMARY KEY (name, token))", "column name is not unique", "1"},
		"NULL allowed":        {"job_fences", "TABLE", "(name text PRIMARY KEY, token bigint, raised_at timestamptz NOT NULL)", "column token may be NULL", "1"},
		"NULL not allowed":    {"pglock_leases", "TABLE", leases + " NOT NULL)", "column expires_at is NOT NULL", ""},
		"a column too many":   {"pglock_leases", "TABLE", leases + ", tenant int NOT NULL)", "column tenant is NOT NULL without a default", ""},
		"unlogged":            {"pglock_leases", "UNLOGGED TABLE", leases + ")", "not LOGGED", ""},
		"a view":              {"pglock_epochs", "VIEW", "AS SELECT 1 AS base", "no ordinary table", "2"},
		"a sequence":          {"pglock_epochs", "SEQUENCE", "", "no ordinary table", "2"},
		"rails' bookkeeping":  {"pglock_schema_migrations", "TABLE", "(version text PRIMARY KEY)", "column version is text, want bigint", "-"},
		"no column at all":    {"pglock_schema_migrations", "TABLE", "()", "column version is missing", "-"},
		"name of a type":      {"pglock_epochs", "TYPE", "AS (a int)", "pglock_epochs", "2"},
		"a constraint's name": {"pglock_epochs_pkey", "TABLE", "(a int)", "pglock_epochs_pkey", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, schema := pgtest.Schema(t)
			conn := connect(t, dsn)
			run(t, conn, "CREATE "+test.kind+" "+quote(schema, test.table)+" "+test.definition)
			err := migrations.Up(limit(t), migrations.URL(dsn), migrations.Options{Schema: schema})
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, test.table)
			if test.recorded != "-" {
				require.Equal(t, test.recorded, recorded(t, conn, schema))
			}
		})
	}
}

func TestUp_TableOfTheRightShapeIsAccepted(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	conn := connect(t, dsn)
	run(t, conn, "CREATE TABLE "+quote(schema, "job_fences")+` (token bigint NOT NULL, name text COLLATE "C" UNIQUE NOT NULL,
		note text, tenant int NOT NULL DEFAULT 1, raised_at timestamptz NOT NULL)`)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
}

func TestUp_MissingTableIsNotMadeSilently(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	options := migrations.Options{Schema: schema}
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
	run(t, connect(t, dsn), "DROP TABLE "+quote(schema, "job_fences"))
	err := migrations.Up(limit(t), migrations.URL(dsn), options)
	require.ErrorContains(t, err, "job_fences")
	require.ErrorContains(t, err, fmt.Sprintf("is missing, although version %d is recorded", migrations.Newest))

	// The way out that the error names.
	require.NoError(t, migrations.Down(limit(t), migrations.URL(dsn), options))
	require.NoError(t, migrations.Up(limit(t), migrations.URL(dsn), options))
}
