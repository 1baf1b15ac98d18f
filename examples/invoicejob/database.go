package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/migrations"
)

//go:embed tables.sql
var tablesSQL string

// A database is where the job works: a server and a schema that holds its tables and those of the locks.
type database struct {
	pool   *pgxpool.Pool
	schema string
}

func openDatabase(ctx context.Context, dsn, schema string) (*database, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &database{pool, schema}, nil
}

// sql puts the schema into a statement, quoted.
func (db *database) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{db.schema}.Sanitize())
}

// install makes the tables of the job, and those of the locks by the library's migrations.
func (db *database) install(ctx context.Context) error {
	err := db.alone(ctx, func(tx pgx.Tx) error {
		// Statement by statement, so that it works whatever the connection string says about the protocol.
		for statement := range strings.SplitSeq(db.sql(tablesSQL), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("tables of the job: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return migrations.Up(ctx, migrations.Pool(db.pool), migrations.Options{Schema: db.schema})
}

// load adds the orders that are not there yet. An order that is there with other content is an error, and nothing is
// added.
func (db *database) load(ctx context.Context, file string, orders []order) error {
	in := newColumns(orders)
	return db.alone(ctx, func(tx pgx.Tx) error {
		other, err := db.firstOther(ctx, tx, in)
		if err != nil {
			return err
		}
		for _, o := range orders {
			if o.ID == other {
				return &rowError{file, o.row, fmt.Errorf("order %d is in the database with other content (schema %q)", o.ID, db.schema)}
			}
		}
		return db.add(ctx, tx, in)
	})
}

// alone runs work in a transaction beside which no other program of this kind installs or loads.
func (db *database) alone(ctx context.Context, work func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('invoicejob ' || $1::text, 0))`, db.schema); err != nil {
			return err
		}
		return work(tx)
	})
}

// columns are orders as the arrays that one statement takes.
type columns struct {
	ids              []int64
	customers, dates []string

	orderIDs, products []int64
	prices, discounts  []string
	quantities         []int32
}

func newColumns(orders []order) columns {
	var c columns
	for _, o := range orders {
		c.ids = append(c.ids, o.ID)
		c.customers = append(c.customers, o.Customer)
		c.dates = append(c.dates, o.Date)
		for _, l := range o.Lines {
			c.orderIDs = append(c.orderIDs, o.ID)
			c.products = append(c.products, l.Product)
			c.prices = append(c.prices, string(l.Price))
			c.quantities = append(c.quantities, l.Quantity)
			c.discounts = append(c.discounts, string(l.Discount))
		}
	}
	return c
}

// What is loaded, as relations.
const (
	incomingOrders = `(
    SELECT order_id, customer, order_date::date AS order_date
    FROM unnest($1::bigint[], $2::text[], $3::text[]) AS i (order_id, customer, order_date)
)`
	incomingLines = `(
    SELECT order_id, product_id, unit_price::numeric AS unit_price, quantity, discount::numeric AS discount
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[])
        AS i (order_id, product_id, unit_price, quantity, discount)
)`
)

// firstOther is the lowest order id that is in the database with other content, or 0.
func (db *database) firstOther(ctx context.Context, tx pgx.Tx, in columns) (int64, error) {
	var byOrder, byLine int64
	err := tx.QueryRow(ctx, db.sql(`
SELECT coalesce(min(o.order_id), 0)
FROM `+incomingOrders+` AS i
JOIN {schema}.orders AS o USING (order_id)
WHERE (o.customer, o.order_date) IS DISTINCT FROM (i.customer, i.order_date)`),
		in.ids, in.customers, in.dates).Scan(&byOrder)
	if err != nil {
		return 0, err
	}
	// A line that is on one side only, of an order that is on both.
	err = tx.QueryRow(ctx, db.sql(`
WITH incoming AS `+incomingLines+`, stored AS (
    SELECT order_id, product_id, unit_price, quantity, discount
    FROM {schema}.order_lines
    WHERE order_id IN (SELECT order_id FROM incoming)
), difference AS (
    (SELECT * FROM incoming EXCEPT SELECT * FROM stored)
    UNION ALL
    (SELECT * FROM stored EXCEPT SELECT * FROM incoming)
)
SELECT coalesce(min(order_id), 0)
FROM difference
WHERE order_id IN (SELECT order_id FROM {schema}.orders)`),
		in.orderIDs, in.products, in.prices, in.quantities, in.discounts).Scan(&byLine)
	if byOrder == 0 || byLine != 0 && byLine < byOrder {
		return byLine, err
	}
	return byOrder, err
}

func (db *database) add(ctx context.Context, tx pgx.Tx, in columns) error {
	rows, err := tx.Query(ctx, db.sql(`
INSERT INTO {schema}.orders (order_id, customer, order_date)
SELECT order_id, customer, order_date
FROM `+incomingOrders+` AS i
ON CONFLICT (order_id) DO NOTHING
RETURNING order_id`),
		in.ids, in.customers, in.dates)
	if err != nil {
		return err
	}
	added, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(added) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, db.sql(`
INSERT INTO {schema}.order_lines (order_id, product_id, unit_price, quantity, discount)
SELECT order_id, product_id, unit_price, quantity, discount
FROM `+incomingLines+` AS i
WHERE order_id = ANY ($6::bigint[])`),
		in.orderIDs, in.products, in.prices, in.quantities, in.discounts, added)
	return err
}

// A tally is what the invoices table says.
type tally struct {
	Invoices int
	Total    string
	Gross    string
}

// tally sums up the invoices of the given orders. The amounts are text: they were exact and stay so.
func (db *database) tally(ctx context.Context, orders []order) (tally, error) {
	var t tally
	err := db.read(ctx, []any{&t.Invoices, &t.Total, &t.Gross}, `
SELECT count(*), round(coalesce(sum(total), 0), 2)::text, round(coalesce(sum(gross), 0), 2)::text
FROM {schema}.invoices
WHERE order_id = ANY ($1::bigint[])`, newColumns(orders).ids)
	return t, err
}

// open counts the orders that have no invoice, and all orders.
func (db *database) open(ctx context.Context) (open, all int, err error) {
	err = db.read(ctx, []any{&open, &all}, `
SELECT count(*) FILTER (WHERE i.order_id IS NULL), count(*)
FROM {schema}.orders
LEFT JOIN {schema}.invoices AS i USING (order_id)`)
	return open, all, err
}

// writtenBy counts the invoices that were written with a token and sums them up.
func (db *database) writtenBy(ctx context.Context, token int64) (count int, total string, err error) {
	err = db.read(ctx, []any{&count, &total}, `
SELECT count(*), round(coalesce(sum(total), 0), 2)::text
FROM {schema}.invoices
WHERE token = $1::bigint`, token)
	return count, total, err
}

// without counts those of the given orders that have no invoice.
func (db *database) without(ctx context.Context, orders []int64) (int, error) {
	var written int
	err := db.read(ctx, []any{&written}, `SELECT count(*) FROM {schema}.invoices WHERE order_id = ANY ($1::bigint[])`, orders)
	return len(orders) - written, err
}

// read asks for one row. It asks again for a while if the server was restarted or ended the connection: the story goes on
// through that, as the job does.
func (db *database) read(ctx context.Context, into []any, sql string, args ...any) error {
	for end := time.Now().Add(stalled); ; {
		err := db.ask(ctx, into, sql, args)
		if err == nil || time.Now().After(end) || ctx.Err() != nil || !disconnected(err) {
			return err
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

func (db *database) ask(ctx context.Context, into []any, sql string, args []any) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return db.pool.QueryRow(ctx, db.sql(sql), args...).Scan(into...)
}

// silence bounds how long a database that does not answer is waited for.
const silence = 5 * time.Second

// disconnected tells whether err is not the statement's fault.
func disconnected(err error) bool {
	var answer *pgconn.PgError
	return !errors.As(err, &answer) || strings.HasPrefix(answer.Code, "57P") || strings.HasPrefix(answer.Code, "08")
}
