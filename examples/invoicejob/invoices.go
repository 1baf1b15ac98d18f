package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/pglock"
)

// nextOrders are the first orders without an invoice, at most limit.
func (db *database) nextOrders(ctx context.Context, limit int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	rows, err := db.pool.Query(ctx, db.sql(`
SELECT o.order_id
FROM {schema}.orders AS o
WHERE NOT EXISTS (
    SELECT
    FROM {schema}.invoices AS i
    WHERE i.order_id = o.order_id
)
ORDER BY o.order_id
LIMIT $1::bigint`), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// writeInvoices writes the invoices of the given orders: one transaction that passes the fence.
//
// After an error that matches fencing.ErrStale nothing is written and the term is over. After any other error nothing is
// written, or, if the connection broke during the commit, everything: reading the next orders tells.
func (db *database) writeInvoices(ctx context.Context, lease *pglock.Lease, writer string, orders []int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// A holder that is frozen in here keeps the fence's row locked and would be in the way of the next one. The server
		// ends its transaction instead. The setting ends with the transaction.
		limit := fmt.Sprintf("%dms", max(patience.Milliseconds(), 1))
		if _, err := tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1::text, true)`, limit); err != nil {
			return err
		}
		// The fence: this fails if anybody was granted a higher token, and until COMMIT nobody is.
		if err := lease.AdvanceTx(ctx, tx); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, db.sql(`
INSERT INTO {schema}.invoices (order_id, gross, total, token, written_by)
SELECT
    order_id,
`+amounts+`,
    $2::bigint,
    $3::text
FROM {schema}.order_lines
WHERE order_id = ANY ($1::bigint[])
GROUP BY order_id`), orders, int64(lease.Token()), writer)
		if err == nil && done.RowsAffected() != int64(len(orders)) {
			err = fmt.Errorf("%d invoices for %d orders", done.RowsAffected(), len(orders))
		}
		return err
	})
}

// amounts are gross and total of one invoice, rounded half up to cents: numeric's round is half away from zero, and no amount is
// negative.
const amounts = `    round(sum(unit_price * quantity), 2),
    round(sum(unit_price * quantity * (1 - discount)), 2)`
