package fencing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	defaultTimeout  = 30 * time.Second
	defaultAttempts = 5

	// PostgreSQL's settings are milliseconds in 31 bits.
	minTimeout = time.Millisecond
	maxTimeout = (1<<31 - 1) * time.Millisecond

	firstPause, lastPause = 10 * time.Millisecond, time.Second

	// rollbackLimit is for a connection that does not answer. The server ends the transaction by itself.
	rollbackLimit = 5 * time.Second
)

// A Beginner begins transactions: a *pgxpool.Pool, a *pgxpool.Conn, or a *pgx.Conn outside a transaction.
type Beginner interface {
	// BeginTx begins a transaction, which its caller ends.
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// RunOptions are for [Fence.Run]. The zero value is fine.
type RunOptions struct {
	// Timeout bounds one attempt, begin to commit. Zero means 30 s; otherwise 1 ms to 24 days. Choose it shorter than a new
	// holder can wait: see [Fence.Run].
	Timeout time.Duration
	// Shared passes the fence by [Fence.ShareTx] instead of [Fence.AdvanceTx], so that several transactions of the holder run side by
	// side.
	Shared bool
	// IsoLevel is the isolation level. Empty means the default of the session.
	IsoLevel pgx.TxIsoLevel
	// Attempts is how often work is run at most, if each run before ended in a serialization failure or a deadlock. Zero means
	// 5, and 1 never runs it again.
	Attempts int
}

// An UnknownError is returned by [Fence.Run] if COMMIT was sent and nothing is known of the result: a connection that broke, a
// server that went down, a deadline. All of the transaction is in the database, or will be, or nothing of it. Run does not try again.
//
// To find out, look for what work writes, in a transaction that passes the same fence: it waits until the unknown one has
// ended.
type UnknownError struct {
	Name  string // of the fence
	Token Token  // of the holder
	Err   error  // why there was no answer
}

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("fencing: run %q with token %d: the outcome of COMMIT is unknown: %v", e.Name, e.Token, e.Err)
}

// Unwrap returns the error of the connection.
func (e *UnknownError) Unwrap() error { return e.Err }

// Run runs work in a transaction that has passed the fence: begin, bound, check, work, commit. If work returns an error or
// panics, the transaction is rolled back. Work must not commit or roll back tx, nor run another transaction on its connection: Run
// then returns an error where it can tell. tx.Begin in work is a savepoint, and does no harm.
//
// An attempt is bounded twice. Its context, which work is given, ends after the timeout. And the server ends the transaction of a
// process that is frozen: the settings statement_timeout, idle_in_transaction_session_timeout, tcp_user_timeout, and
// transaction_timeout where there is one (17), are lowered to the timeout, for this transaction only. So a process that stops,
// for whatever reason, keeps the fence locked, and the next grant busy, for at most twice the timeout from then on: what the
// server is doing, then the silence. Before PostgreSQL 17 a batch counts as many times as it has statements on the way. Not
// bounded is a process that stops in the middle of CopyFrom, as the server heeds none of these while it waits for data; and, where
// the server has no tcp_user_timeout (not Linux, or a Unix socket), one that stops in the middle of reading a result larger than
// the buffers on the way. Then pg_terminate_backend frees the fence.
//
// An attempt that ended with 40001 or 40P01, a serialization failure or a deadlock, in any of its parts, is made again from the
// start, after a random pause that grows (10 ms to 1 s at most), up to RunOptions.Attempts. Nothing else is tried again: not a
// stale token, not a timeout, not an unknown outcome. Work is run several times then; what it does outside of tx is not undone.
//
// What is known after an error:
//   - [UnknownError]: nothing, see there.
//   - any other: nothing of the transaction is in the database, except if work committed it itself. [ErrStale], also by a guarded
//     table (LH002): the term is over. [ErrNoFence], [ErrNotRaised] and errors of the server as in [Fence.AdvanceTx]. Errors of work
//     are in the chain.
//   - pgx.ErrTxCommitRollback: a statement failed, and work ignored it.
//   - an error of ctx: it ended before COMMIT was sent. From then on the end of ctx is not heeded, only its deadline.
func (f Fence) Run(ctx context.Context, db Beginner, token Token, options RunOptions, work func(ctx context.Context, tx pgx.Tx) error) error {
	options, err := f.validateRun(db, token, options, work)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := f.attempt(ctx, db, token, options, work)
		if err == nil || attempt >= options.Attempts || !again(err) {
			return err
		}
		if ended := pause(ctx, attempt); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// attempt is one transaction.
func (f Fence) attempt(ctx context.Context, db Beginner, token Token, options RunOptions, work func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	if inTransaction(db) {
		return f.explain(opRun, errors.New("the connection is in a transaction already"))
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: options.IsoLevel})
	if err != nil {
		return f.explain(opRun, fmt.Errorf("begin: %w", err))
	}
	defer func() {
		// After a commit this does nothing. A panic of work goes on.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()

	milliseconds := strconv.FormatInt(options.Timeout.Milliseconds(), 10)
	if _, err := tx.Exec(ctx, f.statement(opRun, boundSQL), milliseconds); err != nil {
		return f.explain(opRun, fmt.Errorf("bound: %w", err))
	}
	check := f.advance
	if options.Shared {
		check = f.share
	}
	if err := check(ctx, onPgx(tx), token); err != nil {
		return err
	}
	if err := work(ctx, tx); err != nil {
		if ended(tx) {
			return f.explain(opRun, fmt.Errorf("%w: %w", errEnded, err))
		}
		if sqlState(err) == stateStale {
			return fmt.Errorf("%w: %w", ErrStale, err)
		}
		return err
	}
	return f.commit(ctx, tx, token)
}

// commit commits, and tells what is not committed from what is not known.
func (f Fence) commit(ctx context.Context, tx pgx.Tx, token Token) error {
	switch {
	case tx.Conn() != nil && tx.Conn().IsClosed():
		return f.explain(opRun, errors.New("not committed: the connection is closed"))
	case tx.Conn() != nil && tx.Conn().PgConn().IsBusy():
		return f.explain(opRun, errors.New("not committed: work left a result open; read or close it"))
	case ended(tx):
		return f.explain(opRun, fmt.Errorf("%w: %w", errEnded, pgx.ErrTxClosed))
	}
	if err := ctx.Err(); err != nil {
		return f.explain(opRun, fmt.Errorf("not committed: %w", err))
	}
	// A context that is cancelled while COMMIT is on its way would make the outcome unknown for no good reason. One whose time
	// is over may not have noticed yet, in a process that was stopped.
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return f.explain(opRun, fmt.Errorf("not committed: %w", err))
	}
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		return f.explain(opRun, fmt.Errorf("%w: %w", errEnded, err))
	case !notCommitted(err):
		return &UnknownError{Name: f.Name, Token: token, Err: err}
	case sqlState(err) == stateStale: // a deferred trigger wrote to a guarded table
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return f.explain(opRun, fmt.Errorf("not committed: %w", err))
}

// errEnded is work that committed or rolled back by itself: what is in the database is its own affair, and running it again
// would be too.
var errEnded = errors.New("work ended the transaction itself")

// ended tells whether the transaction is over on the server.
func ended(tx pgx.Tx) bool {
	conn := tx.Conn()
	return conn != nil && !conn.IsClosed() && !conn.PgConn().IsBusy() && conn.PgConn().TxStatus() == 'I'
}

// inTransaction tells whether a single connection that was given has a transaction open: ours would not be one.
func inTransaction(db Beginner) bool {
	if pooled, ok := db.(interface{ Conn() *pgx.Conn }); ok {
		db = pooled.Conn()
	}
	conn, ok := db.(interface{ PgConn() *pgconn.PgConn })
	return ok && conn.PgConn().TxStatus() != 'I'
}

// The SQLSTATEs that make a difference here.
const (
	stateStale         = "LH002" // of migration 4
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateIdle          = "25P03"
)

// notCommitted tells whether a failed COMMIT is known to have changed nothing: the server says that it rolled back, or it had
// ended the session for its silence before. An error that ends the session otherwise may have met it after the commit.
//
// NB: not pgconn.SafeToRetry. In pgx 5.12 the error for a COMMIT whose reply was lost claims that nothing was sent: the reader of
// results closes the connection, and then reports that it is closed.
func notCommitted(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || pg.Code == stateIdle)
}

// again tells whether the transaction can be expected to succeed from the start.
func again(err error) bool {
	var unknown *UnknownError
	if errors.As(err, &unknown) || errors.Is(err, errEnded) {
		return false
	}
	state := sqlState(err)
	return state == stateSerialization || state == stateDeadlock
}

// pause waits between two attempts, at random so that those who met once do not meet again.
func pause(ctx context.Context, attempt int) error {
	limit := min(firstPause<<(min(attempt, 30)-1), lastPause)
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (f Fence) validateRun(db Beginner, token Token, options RunOptions, work func(ctx context.Context, tx pgx.Tx) error) (RunOptions, error) {
	// There is no transaction yet.
	begun := func(context.Context, string, ...any) row { return nil }
	if err := f.validate(begun, opRun, token); err != nil {
		return options, err
	}
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Attempts == 0 {
		options.Attempts = defaultAttempts
	}
	var fault string
	switch {
	case db == nil:
		fault = "no database given"
	case work == nil:
		fault = "no work given"
	case options.Timeout < minTimeout || options.Timeout > maxTimeout:
		fault = fmt.Sprintf("the timeout of %v is not between %v and %v", options.Timeout, minTimeout, maxTimeout)
	case options.Attempts < 0:
		fault = fmt.Sprintf("%d attempts are none", options.Attempts)
	default:
		switch options.IsoLevel {
		case "", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
			return options, nil
		}
		fault = fmt.Sprintf("the isolation level %q is none that fences work at", options.IsoLevel)
	}
	return options, fmt.Errorf("fencing: %s %q: %s", opRun, f.Name, fault)
}

// sqlState returns the SQLSTATE of an error of the server, else "".
func sqlState(err error) string {
	// Both pgx and lib/pq have this method.
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}
