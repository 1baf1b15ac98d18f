package fencing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
)

// TestFenceRun_TransactionThatIsNotItsOwnIsAnError: Run says success only of what it committed itself.
func TestFenceRun_TransactionThatIsNotItsOwnIsAnError(t *testing.T) {
	t.Parallel()
	r := newRunning(t, nil)
	statement := func(text string, after func(context.Context, pgx.Tx) error) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			if err := write(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
			return after(ctx, tx)
		}
	}
	nothing := func(context.Context, pgx.Tx) error { return nil }
	for _, c := range []struct {
		name, says string
		work       func(context.Context, pgx.Tx) error
	}{
		{"rolls back", "ended the transaction itself", statement("ROLLBACK", nothing)},
		{"commits", "ended the transaction itself", statement("COMMIT", nothing)},
		{"commits and writes on", "ended the transaction itself", statement("COMMIT", write)},
		{"leaves rows open", "left a result open", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT 1") //nolint:sqlclosecheck // That is the mistake.
			return err
		}},
		{"nests on its own connection", "in a transaction already", func(ctx context.Context, tx pgx.Tx) error {
			return r.fence.Run(ctx, tx.Conn(), 7, fencing.RunOptions{}, write)
		}},
	} {
		err := r.run(t, fencing.RunOptions{}, c.work)
		require.ErrorContains(t, err, c.says, c.name)
		var unknown *fencing.UnknownError
		require.False(t, errors.As(err, &unknown), c.name)
	}

	runs := 0
	err := r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		require.NoError(t, tx.Commit(ctx))
		_, err := r.pool.Exec(ctx, "DO 'BEGIN RAISE SQLSTATE ''40001''; END'")
		return err
	})
	require.ErrorContains(t, err, "ended the transaction itself")
	require.Equal(t, 1, runs, "what was committed is not run again")
}
