package fencing_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestGuardRows_RunsNoCodeOfTheTable: the guard runs as the owner of the library, and the owner of the table is somebody
// else: no cast and no domain of the table's may be called by it.
func TestGuardRows_RunsNoCodeOfTheTable(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	exec(t, l.conn, `
		CREATE TABLE called (what text);
		CREATE TYPE mood AS ENUM ('a');
		CREATE FUNCTION as_json(mood) RETURNS json LANGUAGE plpgsql AS 'BEGIN INSERT INTO called VALUES (''cast''); RETURN ''1''; END';
		CREATE CAST (mood AS json) WITH FUNCTION as_json(mood);
		ALTER TABLE customers ADD COLUMN feels mood`)
	require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
		require.NoError(t, l.of(1).ShareTx(within(t), tx, 7))
		_, err := tx.Exec(within(t), `UPDATE customers SET feels = 'a' WHERE "the id" = 1`)
		return err
	}))
	var calls int
	require.NoError(t, l.conn.QueryRow(within(t), "SELECT count(*) FROM called").Scan(&calls))
	require.Zero(t, calls)

	exec(t, l.conn, `
		CREATE FUNCTION look(bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO called VALUES (''domain''); RETURN true; END';
		CREATE DOMAIN watched AS bigint CHECK (look(value));
		ALTER TABLE customers DISABLE TRIGGER USER;
		ALTER TABLE customers ALTER COLUMN token TYPE watched;
		ALTER TABLE customers ENABLE TRIGGER USER;
		TRUNCATE called`)
	err := pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
		require.NoError(t, l.of(1).ShareTx(within(t), tx, 7))
		_, err := tx.Exec(within(t), `UPDATE customers SET balance = 1 WHERE "the id" = 1`)
		return err
	})
	require.Equal(t, "LH001", refusal(t, err).Code, "a column that was changed is not trusted")
}

// TestGuardRows_ChangedColumnsRefuse: a guard whose columns were renamed away protects nothing, so it lets nothing pass.
func TestGuardRows_ChangedColumnsRefuse(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`ALTER TABLE customers RENAME COLUMN token TO tok`,
		`ALTER TABLE customers DROP COLUMN token`,
		`ALTER TABLE customers RENAME COLUMN "the id" TO id`,
	} {
		l := newLedger(t)
		exec(t, l.conn, change)
		err := pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
			require.NoError(t, l.of(1).ShareTx(within(t), tx, 7))
			_, err := tx.Exec(within(t), `UPDATE customers SET balance = 1`)
			return err
		})
		require.Equal(t, "LH001", refusal(t, err).Code, change)
		require.ErrorContains(t, err, "guard again", change)
	}
}

// TestGuardRows_NewKeyIsStampedWithItsOwnToken: tokens of two fences have nothing to do with each other.
func TestGuardRows_NewKeyIsStampedWithItsOwnToken(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
		require.NoError(t, l.of(1).ShareTx(within(t), tx, 7))
		require.NoError(t, l.of(3).ShareTx(within(t), tx, 4))
		_, err := tx.Exec(within(t), `UPDATE customers SET "the id" = 3 WHERE "the id" = 1`)
		return err
	}))
	require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
		require.NoError(t, l.of(3).ShareTx(within(t), tx, 4))
		_, err := tx.Exec(within(t), `UPDATE customers SET balance = 1 WHERE "the id" = 3 AND token = 4`)
		return err
	}))
}

// TestGuard_FenceMadeMeanwhileIsNoPass: a fence that appears between the two looks of a guard is not locked.
func TestGuard_FenceMadeMeanwhileIsNoPass(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	exec(t, l.conn, `CREATE TABLE invoices (id int)`)
	require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error { return l.of(1).GuardTx(within(t), tx, "invoices") }))
	for _, statement := range []string{`UPDATE customers SET balance = 1 WHERE "the id" = 1`, `INSERT INTO invoices VALUES (1)`} {
		maker := observe(t, l.dsn)
		exec(t, maker, "SET search_path = "+quoted(l.schema))
		making, err := maker.Begin(within(t))
		require.NoError(t, err)
		exec(t, making, "DELETE FROM job_fences WHERE name = $1", l.of(1).Name)
		exec(t, making, "INSERT INTO job_fences VALUES ($1, 7)", l.of(1).Name)

		writer := observe(t, l.dsn)
		exec(t, writer, "SET search_path = "+quoted(l.schema))
		wrote := make(chan error, 1)
		go func() {
			wrote <- pgx.BeginFunc(context.WithoutCancel(t.Context()), writer, func(tx pgx.Tx) error {
				if err := declare(t.Context(), tx, l.of(1), 7); err != nil {
					return err
				}
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
		}()
		require.Eventually(t, func() bool {
			var waits bool
			require.NoError(t, l.conn.QueryRow(within(t), "SELECT coalesce(wait_event_type = 'Lock', false) FROM pg_stat_activity WHERE pid = $1",
				writer.PgConn().PID()).Scan(&waits))
			return waits
		}, patience, 5*time.Millisecond)
		require.NoError(t, making.Commit(within(t)))
		require.Equal(t, "40001", refusal(t, <-wrote).Code, statement)
	}
}
