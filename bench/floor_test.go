package bench_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/bench"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestFloor_GrantsAndReleases: the floor does the job, and refuses what is held.
func TestFloor_GrantsAndReleases(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	pool := pgtest.Pool(t, dsn)
	grant, release := bench.Floor()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "SET LOCAL search_path = "+pgx.Identifier{schema}.Sanitize())
	require.NoError(t, err)

	var token int64
	require.NoError(t, tx.QueryRow(t.Context(), grant, "n", "1").Scan(&token))
	require.EqualValues(t, 1, token)
	require.ErrorIs(t, tx.QueryRow(t.Context(), grant, "n", "2").Scan(&token), pgx.ErrNoRows)
	tag, err := tx.Exec(t.Context(), release, "n", "2")
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected())
	tag, err = tx.Exec(t.Context(), release, "n", "1")
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	require.NoError(t, tx.QueryRow(t.Context(), grant, "n", "2").Scan(&token))
	require.EqualValues(t, 2, token)
}
