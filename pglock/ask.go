package pglock

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// readCommitted is what every statement here is written for (PostgreSQL manual, 13.2.1): it sees the newest version of
// a row that it waited for, where the higher levels fail with 40001.
const readCommitted = "read committed"

// query runs one statement as a transaction of its own, in one round trip, and collects its rows. 40001 can come only before the
// isolation is pinned.
func query[T any](ctx context.Context, c *Client, conn *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	found, err := queryOnce(ctx, c, conn, scan, sql, args...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "40001" && c.pin("") {
		return queryOnce(ctx, c, conn, scan, sql, args...) // Nothing was done: 40001 rolls back.
	}
	return found, err
}

func queryOnce[T any](ctx context.Context, c *Client, conn *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	if c.pinned.Load() {
		return queryPinned(ctx, conn, scan, sql, args...)
	}
	rows, _ := conn.Query(ctx, sql, args...) // CollectRows returns the error too.
	return pgx.CollectRows(rows, scan)
}

// queryPinned is query where the default isolation is another. The three statements are sent at once: no transaction stays
// open on the server when this process is paused or vanishes between them.
func queryPinned[T any](ctx context.Context, conn *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, batch)
	found, err := func() ([]T, error) {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
		rows, _ := results.Query()
		found, err := pgx.CollectRows(rows, scan)
		if err != nil {
			return nil, err
		}
		_, err = results.Exec()
		return found, err
	}()
	if closing := results.Close(); err == nil {
		err = closing
	}
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		// The statement failed. Its transaction has let go of its locks, and only has to be ended.
		if _, rolled := conn.Exec(ctx, "ROLLBACK"); rolled != nil {
			_ = closeConn(conn)
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// pin has every statement from now on say its isolation level. It reports whether that is new.
func (c *Client) pin(seen string) bool {
	if c.pinned.Swap(true) {
		return false
	}
	c.config.Logger.Info("pglock: the default isolation is not read committed: each statement is sent with its own",
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
	ReadOnly         bool
	Entered          bool
	Backend          int32
}

// identify looks at the server: does it tell which cluster it is (design: tokens rise through failover), and what is its
// default isolation, and does the mode of the pool work there.
func (c *Client) identify(ctx context.Context, conn *pgx.Conn) (*statements, error) {
	// Not in the pool's mode, as it is not known yet whether a pooler breaks it. This one works behind each.
	mode := pgx.QueryExecModeExec
	if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol
	}
	ask := func(sql string) ([]clusterRow, error) {
		rows, _ := conn.Query(ctx, sql, mode) // CollectRows returns the error too.
		return pgx.CollectRows(rows, pgx.RowToStructByPos[clusterRow])
	}
	s := newStatements(c.config.Schema, false)
	found, err := ask(s.identify)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "42883" || pg.Code == "0A000") {
		refusal := err
		s = newStatements(c.config.Schema, true)
		if found, err = ask(s.identify); err == nil {
			c.config.Logger.Warn("pglock: the server does not tell which cluster and timeline it is: tokens are a plain counter, "+
				"which a failover that loses the last grants can repeat; raise the epoch by hand after one", slog.Any("error", refusal))
		}
	}
	if err != nil {
		return nil, err
	}
	if found[0].ReadOnly {
		return nil, errReadOnly
	}
	if err := c.checkPooler(ctx, conn, uint32(found[0].Backend)); err != nil {
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
	if readOnly(err) || errors.Is(err, errSuperseded) {
		c.moved.Store(true)
		_ = closeConn(conn.Conn()) // Let the pool connect anew, perhaps elsewhere.
	}
	return err
}

// renew is one renewal of all leases, on the client's own connection, or on one of the pool's where that cannot be had.
func (c *Client) renew(ctx context.Context, leases []*Lease) []verdict {
	var verdicts []verdict
	ask := func(conn *pgx.Conn) (err error) {
		verdicts, err = c.renewOn(ctx, conn, leases)
		return err
	}
	if c.moved.Swap(false) {
		c.link.drop()
	}
	old := c.link.conn
	conn, err := c.link.get(ctx)
	if err != nil {
		if c.withPool(ctx, ask) == nil {
			return verdicts
		}
	} else if err = ask(conn); err == nil {
		if conn == old && wentBack(verdicts) {
			return c.renewAnew(ctx, leases, verdicts)
		}
		return verdicts
	}
	c.link.judge(err)
	verdicts = make([]verdict, len(leases))
	for i := range verdicts {
		verdicts[i].err = explain(c.config.Schema, err)
	}
	return verdicts
}

// wentBack tells whether the database seems to have forgotten a grant.
func wentBack(verdicts []verdict) bool {
	return slices.ContainsFunc(verdicts, func(v verdict) bool {
		return v.lost != nil && (v.lost.Reason == LostRolledBack || v.lost.Reason == LostDeleted)
	})
}

// renewAnew asks once more, on a new connection that takes the place of the client's own: that one may lead to a former
// primary, which knows nothing of what the present one granted to the pool. If nothing is learned, the first answer counts.
//
// NB: trust is not stretched: it counts from before the first question.
func (c *Client) renewAnew(ctx context.Context, leases []*Lease, first []verdict) []verdict {
	conn, err := c.connect(ctx)
	if err != nil {
		return first // The old connection stays, as another cannot be had.
	}
	c.link.drop()
	c.link.conn = conn
	verdicts, err := c.renewOn(ctx, conn, leases)
	if err != nil {
		c.link.judge(err)
		return first
	}
	return verdicts
}

func (c *Client) renewOn(ctx context.Context, conn *pgx.Conn, leases []*Lease) ([]verdict, error) {
	verdicts := make([]verdict, len(leases))
	names, holders, tokens := make([]string, len(leases)), make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		names[i], holders[i], tokens[i] = l.name, l.holder, int64(l.token)
	}
	s := c.quick.Load()
	done, err := query(ctx, c, conn, pgx.RowToStructByPos[renewedRow], s.renew, names, holders, tokens, c.config.TTL.Microseconds())
	if err != nil {
		return nil, err
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
		return verdicts, nil
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
	return verdicts, nil
}
