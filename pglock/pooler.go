package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler that hands its sessions on between transactions breaks two of pgx's modes: cache_statement, unless the pooler
// knows prepared statements, and describe_exec, because the unnamed statement of one client is overwritten by another's. It
// may do so much later than at the first statement: while the pooler has one session, one client alone notices nothing.
// Hence the client looks before its first grant.

// poolerAdvice ends the error of a mode that the pooler breaks.
const poolerAdvice = "set the pool's ConnConfig.DefaultQueryExecMode to cache_describe, exec or simple_protocol " +
	"(in a connection string: default_query_exec_mode=cache_describe)"

// trackingAdvice is the other way, in cache_statement.
const trackingAdvice = ", or max_prepared_statements in PgBouncer 1.21 or later"

// errUnprepared is a pooler that breaks cache_statement.
var errUnprepared = errors.New("a pooler in transaction mode mixes up the prepared statements of cache_statement, the pool's mode: " +
	poolerAdvice + trackingAdvice)

// errUndescribed is a pooler that breaks describe_exec. The worst of it is no error: a statement of another client may be
// carried out in place of ours.
var errUndescribed = errors.New("a pooler in transaction mode mixes up the unnamed statements of describe_exec, the pool's mode: " +
	poolerAdvice)

// poolerRounds is how often it is looked whether sessions change hands. One is enough while nobody else uses the pooler;
// each further one has a connection of its own, as several poolers may stand behind one address.
const poolerRounds = 3

// A sighting is the session that a statement happened to be in.
type sighting struct {
	backend  uint32 // the process id of the server
	prepared bool   // the statement that we prepared is there, under our name
}

// checkPooler finds out, on a connection that identify.sql was answered on by the given server process, whether the mode of
// the pool works there. A server process that is the connection's own is no pooler's, and costs no question.
//
// No evidence is no error: behind a pooler in session mode every mode works.
func (c *Client) checkPooler(ctx context.Context, conn *pgx.Conn, backend uint32) error {
	mode := conn.Config().DefaultQueryExecMode
	broken, named := errUndescribed, mode == pgx.QueryExecModeCacheStatement
	if named {
		broken = errUnprepared
	}
	if !named && mode != pgx.QueryExecModeDescribeExec || backend == conn.PgConn().PID() {
		return nil
	}
	changes, err := c.sessionsChange(ctx, conn, named)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "42P05"): // As in explain: this is it.
		return fmt.Errorf("%w: %w", broken, err)
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		c.config.Logger.Warn("pglock: the pool leads through a pooler, and it is not known whether it can work with the pool's mode",
			slog.String("mode", mode.String()), slog.Any("error", err))
	case changes:
		return broken
	}
	return nil
}

// sessionsChange tells whether what conn prepares can be lost to it, or be met by another connection. With named it is
// the statements with a name that count, and not the sessions: a pooler may know them, or keep the session for their sake.
func (c *Client) sessionsChange(ctx context.Context, conn *pgx.Conn, named bool) (bool, error) {
	name := "pglock_probe_" + rand.Text()
	look := "SELECT pg_catalog.pg_backend_pid(), EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE name = '" + name + "')"
	home, err := prepareAndLook(ctx, conn, name, look)
	if err != nil {
		return false, err
	}
	// Best effort: where sessions change hands it may close nothing, and one small statement stays in a session.
	defer func() { _ = conn.PgConn().Deallocate(ctx, name) }()
	if named && !home.prepared {
		return false, nil // The pooler gave it another name: it keeps account of them.
	}
	same := func(s sighting) bool {
		if named {
			return s.prepared
		}
		return s.backend == home.backend
	}
	for range poolerRounds {
		met, err := c.lookElsewhere(ctx, look)
		if err != nil {
			return false, err
		}
		if same(met) {
			return true, nil
		}
		for range 2 { // Twice in a row: a pooler that takes its sessions in turn may give us the old one at every other time.
			back, err := lookOn(ctx, conn, look)
			if err != nil {
				return false, err
			}
			if !same(back) {
				return true, nil
			}
		}
	}
	return false, nil
}

// prepareAndLook prepares a statement under a name and carries it out, in one transaction and so in one session.
func prepareAndLook(ctx context.Context, conn *pgx.Conn, name, sql string) (s sighting, err error) {
	pipeline := conn.PgConn().StartPipeline(ctx)
	defer func() { err = errors.Join(err, pipeline.Close()) }()
	pipeline.SendPrepare(name, sql, nil)
	pipeline.SendQueryPrepared(name, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return s, err
	}
	if _, err := pipeline.GetResults(); err != nil {
		return s, err
	}
	results, err := pipeline.GetResults()
	if err != nil {
		return s, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return s, fmt.Errorf("unexpected answer %T", results)
	}
	return readSighting(reader.Read())
}

// lookElsewhere is a look on a connection of its own. It is bounded, as a pooler in session mode may have no session left.
func (c *Client) lookElsewhere(ctx context.Context, sql string) (sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout/3)
	defer cancel()
	other, err := c.connectBare(ctx) // A hook may be slow, or have prepared statements that the pooler mixes up.
	if err != nil {
		return sighting{}, err
	}
	defer func() { _ = closeConn(other) }()
	return lookOn(ctx, other, sql)
}

// lookOn sends a simple query, which every pooler carries.
func lookOn(ctx context.Context, conn *pgx.Conn, sql string) (sighting, error) {
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return sighting{}, err
	}
	if len(results) != 1 {
		return sighting{}, fmt.Errorf("%d results instead of one", len(results))
	}
	return readSighting(results[0])
}

// readSighting reads a row in text format.
func readSighting(result *pgconn.Result) (sighting, error) {
	if result.Err != nil {
		return sighting{}, result.Err
	}
	if len(result.Rows) != 1 || len(result.Rows[0]) != 2 {
		return sighting{}, errors.New("unexpected answer")
	}
	backend, err := strconv.ParseUint(string(result.Rows[0][0]), 10, 32)
	return sighting{backend: uint32(backend), prepared: string(result.Rows[0][1]) == "t"}, err
}
