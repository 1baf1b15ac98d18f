package control

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tables are what the lock protects: a value that holders read and write back, and a line for each of their transactions.
const tables = `
CREATE TABLE accounts (
    name text NOT NULL,
    value bigint NOT NULL,
    CONSTRAINT accounts_pkey PRIMARY KEY (name)
);
CREATE TABLE ledger (
    name text NOT NULL,
    round integer NOT NULL,
    label text NOT NULL,
    value bigint NOT NULL,
    CONSTRAINT ledger_pkey PRIMARY KEY (name, round, label)
)`

// readValue is the first of the two steps, a statement of its own.
func readValue(ctx context.Context, pool *pgxpool.Pool, name string) (value int64, err error) {
	err = pool.QueryRow(ctx, "SELECT value FROM accounts WHERE name = $1", name).Scan(&value)
	return value, err
}

// writeTx is the second: what was worked out from the value that was read. The line of the ledger comes first, so that a
// transaction that waits for the account has not been seen by anybody.
func writeTx(ctx context.Context, tx pgx.Tx, name string, round int, label string, value int64) error {
	_, err := tx.Exec(ctx, "INSERT INTO ledger (name, round, label, value) VALUES ($1, $2, $3, $4)", name, round, label, value)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE accounts SET value = $2 WHERE name = $1", name, value)
	return err
}

// openAccount makes an account with nothing in it.
func openAccount(ctx context.Context, pool *pgxpool.Pool, name string) error {
	_, err := pool.Exec(ctx, "INSERT INTO accounts (name, value) VALUES ($1, 0)", name)
	return err
}

// written says whether a worker's transaction of a round has committed.
func written(ctx context.Context, pool *pgxpool.Pool, name string, round int, label string) (done bool, err error) {
	err = pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM ledger WHERE name = $1 AND round = $2 AND label = $3)",
		name, round, label).Scan(&done)
	return done, err
}
