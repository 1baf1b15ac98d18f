package pglock

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// readCommitted is what every statement here is written for (PostgreSQL manual, 13.2.1): it sees the newest version of
// a row that it waited for, where the higher levels fail with 40001.
const readCommitted = "read committed"

// query runs one statement as a transaction of its own and collects its rows: in one round trip where the server's default
// isolation is READ COMMITTED, in three otherwise.
func query[T any](ctx context.Context, c *Client, conn *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	found, err := queryOnce(ctx, c, conn, scan, sql, args...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40001" && c.pin("") {
		return queryOnce(ctx, c, conn, scan, sql, args...) // Nothing was done: 40001 rolls back.
	}
	return found, err
}

func queryOnce[T any](ctx context.Context, c *Client, conn *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	if !c.pinned.Load() {
		rows, _ := conn.Query(ctx, sql, args...) // CollectRows returns the error too.
		return pgx.CollectRows(rows, scan)
	}
	var found []T
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, sql, args...)
		var err error
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	return found, err
}

// pin has every statement from now on say its isolation level. It reports whether that is new.
func (c *Client) pin(seen string) bool {
	if c.pinned.Swap(true) {
		return false
	}
	c.config.Logger.Info("pglock: the default isolation is not read committed: each statement takes three round trips",
		slog.String("default", seen))
	return true
}

// A leaseRow is what inspect.sql returns.
type leaseRow struct {
	Name      string
	Holder    string
	Label     string
	Token     int64
	Remaining *int64 // microseconds; nil if the lease is free
}

// A clusterRow is what identify.sql returns.
type clusterRow struct {
	SystemIdentifier int64
	Timeline         int64
	Isolation        string
	Entered          bool
}

// identify looks at the server: does it tell which cluster it is (design: tokens rise through failover), and what is its
// default isolation.
func (c *Client) identify(ctx context.Context, conn *pgx.Conn) (*statements, error) {
	s := newStatements(c.config.Schema, false)
	found, err := query(ctx, c, conn, pgx.RowToStructByPos[clusterRow], s.identify)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "42883" || pg.Code == "0A000") {
		refusal := err
		s = newStatements(c.config.Schema, true)
		if found, err = query(ctx, c, conn, pgx.RowToStructByPos[clusterRow], s.identify); err == nil {
			c.config.Logger.Warn("pglock: the server does not tell which cluster and timeline it is: tokens are a plain counter, "+
				"which a failover that loses the last grants can repeat; raise the epoch by hand after one", slog.Any("error", refusal))
		}
	}
	if err != nil {
		return nil, err
	}
	if found[0].Isolation != readCommitted {
		c.pin(found[0].Isolation)
	}
	return &s, nil
}

// withPool runs ask on a connection of the pool.
func (c *Client) withPool(ctx context.Context, ask func(*pgx.Conn) error) error {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = ask(conn.Conn())
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "25006" || pg.Code == "55000") {
		// A primary that became a standby: let the pool connect anew, perhaps elsewhere.
		_ = closeConn(conn.Conn())
	}
	return err
}

// renew is one renewal of all leases, on the client's own connection.
func (c *Client) renew(ctx context.Context, leases []*Lease, fresh bool) []verdict {
	verdicts := make([]verdict, len(leases))
	fail := func(err error) []verdict {
		for i := range verdicts {
			verdicts[i].err = explain(c.config.Schema, err)
		}
		return verdicts
	}
	if fresh {
		c.link.drop()
	}
	conn, err := c.link.get(ctx)
	if err != nil {
		return fail(err)
	}
	names, holders, tokens := make([]string, len(leases)), make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		names[i], holders[i], tokens[i] = l.name, l.holder, int64(l.token)
	}
	s := c.quick.Load()
	type renewedRow struct{ Name, Holder string }
	done, err := query(ctx, c, conn, pgx.RowToStructByPos[renewedRow], s.renew, names, holders, tokens, c.config.TTL.Microseconds())
	if err != nil {
		return fail(err)
	}
	renewed := make(map[string]bool, len(done))
	for _, row := range done {
		renewed[row.Holder] = true
	}
	var doubtful []string
	for _, l := range leases {
		if !renewed[l.holder] {
			doubtful = append(doubtful, l.name)
		}
	}
	if len(doubtful) == 0 {
		return verdicts
	}
	rows, err := query(ctx, c, conn, pgx.RowToStructByPos[leaseRow], s.inspect, doubtful)
	byName := make(map[string]*leaseRow, len(rows))
	for i := range rows {
		byName[rows[i].Name] = &rows[i]
	}
	for i, l := range leases {
		switch {
		case renewed[l.holder]:
		case err != nil:
			verdicts[i].err = err
		default:
			verdicts[i] = l.settle(byName[l.name])
		}
	}
	return verdicts
}
