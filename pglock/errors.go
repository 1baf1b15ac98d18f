package pglock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/leasehold-go/leasehold/fencing"
)

var (
	// ErrNotAcquired is returned when somebody else has the lease; the error is a [*HeldError]. When the wait of
	// [Client.Acquire] ended it is joined with the context's error.
	ErrNotAcquired = errors.New("pglock: not acquired")

	// ErrLost is the cause of a lease's context when its term is over against our will; the error is a [*LostError].
	ErrLost = errors.New("pglock: lease lost")

	// ErrReleased is the cause of a lease's context after its own release.
	ErrReleased = errors.New("pglock: lease released")

	// ErrNotMigrated is returned when the tables are missing, or too old for leases.
	ErrNotMigrated = errors.New("pglock: schema not migrated")

	// ErrClosed is returned by a client after [Client.Close].
	ErrClosed = errors.New("pglock: client closed")
)

// A HeldError says who has the lease that was asked for. It matches [ErrNotAcquired].
type HeldError struct {
	Name     string        // what was asked for
	Holder   string        // label of the holder, for people
	Token    fencing.Token // the holder's token
	TimeLeft time.Duration // until it expires unless renewed, on the database's clock when it was asked

	// Busy is true when it is not known who has it: attempts at the same moment, a fenced transaction of an earlier
	// holder that is still open, or a foreign session in the gate. Holder, Token and TimeLeft are then zero.
	Busy bool
	// Blockers are the process ids of the sessions in the gate of a busy name, where the server could tell.
	Blockers []int32
}

// Error implements error.
func (e *HeldError) Error() string {
	if !e.Busy {
		return fmt.Sprintf("pglock: %q is held by %q with token %d, %v left", e.Name, e.Holder, e.Token,
			e.TimeLeft.Round(time.Millisecond))
	}
	if len(e.Blockers) == 0 {
		return fmt.Sprintf("pglock: %q is busy, and nobody may have it: another attempt, or a fenced transaction of an earlier holder, is under way; ask again",
			e.Name)
	}
	pids := strings.Trim(fmt.Sprint(e.Blockers), "[]")
	return fmt.Sprintf("pglock: %q is busy: its advisory gate is held by server process %s", e.Name, pids)
}

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// A LostReason says why a term is over.
type LostReason string

// The reasons for which a lease is lost.
const (
	// LostTakenOver means that another holder was granted the name.
	LostTakenOver LostReason = "taken over"
	// LostExpired means that the lease ran out on the database's clock before it was renewed.
	LostExpired LostReason = "expired"
	// LostUnreachable means that no renewal was confirmed in time. The row may still be ours; nobody could be asked.
	LostUnreachable LostReason = "unreachable"
	// LostRevoked means that an operator freed the lease.
	LostRevoked LostReason = "revoked"
	// LostRolledBack means that the database went back to a state before the grant: a failover or a restore lost it.
	LostRolledBack LostReason = "rolled back"
	// LostDeleted means that the row of the lease is gone.
	LostDeleted LostReason = "deleted"
)

// A LostError says which term is over and why. It matches [ErrLost].
type LostError struct {
	Name     string        // what was held
	Token    fencing.Token // of the term that is over
	Reason   LostReason    // why it is over
	By       string        // label of the new holder, if it was taken over
	NewToken fencing.Token // of the new holder, if it was taken over
	Err      error         // the last error of a renewal, if the database could not be asked
}

// Error implements error.
func (e *LostError) Error() string {
	text := fmt.Sprintf("pglock: lease %q with token %d lost: %s", e.Name, e.Token, e.Reason)
	if e.Reason == LostTakenOver {
		text += fmt.Sprintf(" by %q with token %d", e.By, e.NewToken)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap gives the last error of a renewal.
func (e *LostError) Unwrap() error { return e.Err }

// errBusy is the outcome of one round: ask again in some milliseconds.
var errBusy = errors.New("pglock: busy")

// errReadOnly is a server that does not take writes.
var errReadOnly = errors.New("the server is read-only, perhaps a standby: add target_session_attrs=read-write to the connection " +
	"string, or look at default_transaction_read_only")

// errSuperseded is a former primary: its clients brought it a token of the next one's timeline. To grant there would
// give out tokens that the next primary does not know of.
var errSuperseded = errors.New("the server is a former primary: a later timeline has granted already; connect to the present one " +
	"(if this is the one, and the rows came by a dump or by hand, run: pglock epoch raise)")

// errStaleGrant is a grant whose reply came so late that it is of no use.
var errStaleGrant = errors.New("pglock: the grant arrived after its own deadline")

// explain adds to an error of the database what the operator can do about it.
func explain(schema string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "42P01", "3F000", "42703": // undefined table, schema, column
		return fmt.Errorf("%w: schema %q: run: pglock migrate up -schema %s: %w", ErrNotMigrated, schema, shellQuote(schema), err)
	case "26000", "42P05": // prepared statement does not exist; exists already
		return fmt.Errorf("a pooler in transaction mode mixes up prepared statements: "+poolerAdvice+trackingAdvice+": %w", err)
	case "42501": // insufficient privilege
		return fmt.Errorf("this role lacks a privilege in schema %q: docs/roles.sql has the grants: %w", schema, err)
	case "25006", "55000": // as in readOnly
		return fmt.Errorf("%w: %w", errReadOnly, err)
	}
	return err
}

// readOnly tells whether a server refused to write: a primary that became a standby, or was made read-only, keeps its sessions.
func readOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "25006" || pg.Code == "55000") // Read-only transaction; recovery is in progress.
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// transient tells whether asking again can help: the server was not reached, was going down, was short of something, or
// refused this transaction because of others.
func transient(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "40", "53", "58": // connection, rollback, resources, system
			return true
		}
		switch pg.Code {
		case "25006", "55000", // read-only: a failover may be under way
			"55P03",                                     // lock_timeout
			"57014",                                     // statement_timeout
			"57P01", "57P02", "57P03", "57P05", "25P03", // shutdown, crash, start-up, idle timeouts
			"25P04": // transaction_timeout
			return true
		}
		return false
	}
	if errors.Is(err, puddle.ErrClosedPool) {
		return false
	}
	if errors.Is(err, errReadOnly) || errors.Is(err, errSuperseded) {
		return true // A failover may be under way.
	}
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err)
}

// undecided tells whether a statement that was begun may have been carried out although it returned an error.
//
// An ordinary error of the server rolled it back. A FATAL one says nothing: a session that is ended while its commit
// waits for a standby has committed. Without an answer nothing is known.
//
// NB: pgconn.SafeToRetry does not help. Where the reply to a statement without arguments is lost, as all are in the simple
// protocol, pgx 5.12 returns "conn closed", which counts as safe.
func undecided(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized != "ERROR" && pg.Severity != "ERROR"
	}
	return true
}

// errRowLocked is why a lease was not renewed although its row is still ours: somebody keeps the row locked.
var errRowLocked = errors.New("the row of the lease is locked by another session")
