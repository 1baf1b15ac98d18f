package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// access is how a transaction is begun. READ COMMITTED whatever the default of the database is: a statement after a lock must
// see what the holder before us committed.
type access string

const (
	looking  access = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
	changing access = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
)

// transaction is one open transaction whose settings are ours, all of them local to it. Every statement goes by the simple
// protocol on the bare connection: that needs no prepared statement, so it works behind every pooler and with every
// query mode of the caller's pool.
type transaction struct {
	conn   *pgconn.PgConn
	schema string
}

// transact runs work in one transaction, and commits if work returns nil.
func transact(ctx context.Context, conns connections, schema string, access access, work func(tx transaction) error) error {
	return conns.use(ctx, func(conn *pgconn.PgConn) (err error) {
		tx := transaction{conn: conn, schema: schema}
		if err := tx.exec(ctx, string(access)); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer func() {
			if err != nil {
				tx.rollback(ctx)
			}
		}()
		if err := tx.set(ctx); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
		if err := work(tx); err != nil {
			return err
		}
		return tx.commit(ctx)
	})
}

// set makes the transaction independent of what the role, the database, the connection string and the caller set.
//
// search_path: pg_temp is named last, else a temporary table of the caller would be found first.
//
// lock_timeout: not none, because a DROP or ALTER that waits makes every later user of the table wait behind it. It gives
// up after a second and tries again from the top.
//
// idle_in_transaction_session_timeout: not none, because a frozen process would keep the lock until somebody finds it.
func (tx transaction) set(ctx context.Context) error {
	if err := tx.exec(ctx, "SET LOCAL client_encoding = 'UTF8'"); err != nil {
		return err
	}
	// Joined with pg_settings, because transaction_timeout is not known before PostgreSQL 17.
	return tx.exec(ctx, `
SELECT set_config(s.name, v.value, true)
FROM pg_catalog.pg_settings AS s
JOIN (
    VALUES
        ('search_path', `+literal(identifier(tx.schema)+", pg_temp")+`),
        ('client_min_messages', 'warning'),
        ('lock_timeout', '1s'),
        ('statement_timeout', '0'),
        ('transaction_timeout', '0'),
        ('idle_in_transaction_session_timeout', '60s')
) AS v (name, value) ON v.name = s.name`)
}

func (tx transaction) exec(ctx context.Context, sql string) error {
	_, err := tx.conn.Exec(ctx, sql).ReadAll()
	return err
}

// rows returns the rows of one statement as text; NULL is "".
func (tx transaction) rows(ctx context.Context, sql string) ([][]string, error) {
	results, err := tx.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, value := range values {
				row[i] = string(value)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (tx transaction) commit(ctx context.Context) error {
	results, err := tx.conn.Exec(ctx, "COMMIT").ReadAll()
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if tag := results[0].CommandTag.String(); tag != "COMMIT" {
		return fmt.Errorf("commit: the server answered %s", tag)
	}
	return nil
}

// rollback leaves the connection fit for its pool. It has its own time limit, because ctx is often over by then.
func (tx transaction) rollback(ctx context.Context) {
	if tx.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := tx.exec(ctx, "ROLLBACK"); err != nil {
		_ = tx.conn.Close(ctx)
	}
}

// sqlState returns the SQLSTATE of an error of the server, else "".
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// explain adds to a refusal what the operator can do about it.
func explain(err error) error {
	if sqlState(err) != "42501" { // insufficient_privilege
		return err
	}
	return fmt.Errorf("this role lacks a privilege: the owner of the tables migrates, and docs/roles.sql has the grants of the others: %w", err)
}
