package fencing

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// A Token is a fencing token: higher for every new term of a name, constant through its renewals, above zero.
//
// Chubby §2.4 calls it a sequencer; the name is from Kleppmann, "How to do distributed locking" (2016).
type Token int64

// A Fence names a row of job_fences: the highest token granted or accepted for a resource. Its methods are the checks.
//
// It is a value without state, made as a literal, and safe for concurrent use. A transaction is not: its checks and writes
// come one after the other.
type Fence struct {
	// Name is the resource: 1 to 255 bytes of UTF-8 without NUL. The fence of a lease has the lease's name.
	Name string
	// Schema is where job_fences is, unquoted and not looked up in search_path. Empty means public.
	Schema string
}

// AdvanceTx passes the fence in the caller's transaction if token is not below it, and raises it to token. It is a
// conditional UPDATE: until tx ends, no other transaction passes, of the same holder or another, and no grant raises
// the fence. Equal tokens pass, because a holder writes many times.
//
// Place it before or after the writes of tx, but outside of any savepoint that may be rolled back: ROLLBACK TO SAVEPOINT
// undoes the check with everything else (package documentation).
//
// Errors, and what is known then:
//   - [ErrStale], a [*StaleError]: refused. Nothing was changed by the check; tx is still usable, so nothing but the caller's
//     rollback keeps its other writes out. Roll back at once: a check that waited for a grant in flight and was then refused
//     has locked the row all the same, and the new holder waits for it.
//   - [ErrNoFence]: there is no row; tx as above. In REPEATABLE READ and SERIALIZABLE: no row in the snapshot.
//   - bad input (nil tx, name, schema, token not above zero): nothing was sent.
//   - an error of the server, a *pgconn.PgError in the chain: tx is aborted. 40001 (in REPEATABLE READ and SERIALIZABLE, the
//     fence was written after the snapshot), 40P01, 55P03 and 57014 are not a refusal: roll back and run tx again.
//   - an error of ctx or the connection: the check may have run, but tx cannot commit; roll back.
//
// In SERIALIZABLE a commit may still fail with 40001 after a passed check. See PostgreSQL manual 13.2 and 13.3.2.
func (f Fence) AdvanceTx(ctx context.Context, tx pgx.Tx, token Token) error {
	return f.advance(ctx, onPgx(tx), token)
}

// AdvanceSQLTx is [Fence.AdvanceTx] for database/sql.
func (f Fence) AdvanceSQLTx(ctx context.Context, tx *sql.Tx, token Token) error {
	return f.advance(ctx, onSQL(tx), token)
}

// AdvanceStrictTx is [Fence.AdvanceTx] that refuses an equal token too: one transaction a token commits, however many
// try. Refusals, and errors, are the same; [StaleError] then has Fence equal to Token.
//
// It needs a fence of its own, made by [Fence.CreateTx]: the fence of a lease is at the token from the grant on, and
// would refuse the first transaction. Only the lease's fence keeps an older holder out from the grant on; pass both, the
// lease's first.
func (f Fence) AdvanceStrictTx(ctx context.Context, tx pgx.Tx, token Token) error {
	return f.advanceStrict(ctx, onPgx(tx), token)
}

// AdvanceStrictSQLTx is [Fence.AdvanceStrictTx] for database/sql.
func (f Fence) AdvanceStrictSQLTx(ctx context.Context, tx *sql.Tx, token Token) error {
	return f.advanceStrict(ctx, onSQL(tx), token)
}

// ShareTx passes the fence in the caller's transaction if it is equal to token. It takes a shared row lock: until tx ends no
// grant raises the fence, while other transactions of the same holder pass beside it.
//
// A token above the fence is refused with [ErrNotRaised]. The grant has to have raised this very row, because a shared check
// raises nothing: with the fence at 6, holder 7 and its successor 8 would both pass, one after the other or at once. For a
// fence in another database than the lock's use [Fence.AdvanceTx], at least in the first transaction of a term.
//
// Stop when the lease is lost. A shared lock does not queue behind a grant that waits to raise the fence, so as long as a
// holder's shared transactions overlap, nobody else is granted the name, although the lease has run out.
//
// Do not follow it by [Fence.AdvanceTx] in the same transaction: two transactions that do wait for each other (40P01).
//
// Other errors, place in the transaction and isolation levels are those of [Fence.AdvanceTx].
func (f Fence) ShareTx(ctx context.Context, tx pgx.Tx, token Token) error {
	return f.share(ctx, onPgx(tx), token)
}

// ShareSQLTx is [Fence.ShareTx] for database/sql.
func (f Fence) ShareSQLTx(ctx context.Context, tx *sql.Tx, token Token) error {
	return f.share(ctx, onSQL(tx), token)
}

// CreateTx makes the fence at 0, below every token, unless it is there; then it changes nothing. It is for a fence that no
// grant raises: in another database than the lock's, or for [Fence.AdvanceStrictTx].
//
// Call it once, when the resource is set up, in a transaction of its own: until that ends, others that create the same
// fence wait, and then fail with 40001 in REPEATABLE READ and SERIALIZABLE. Before every check it would turn the loss of
// the row, which is an [ErrNoFence], into a fence that passes a stale token.
//
// After an error of the server tx is aborted; after bad input nothing was sent.
func (f Fence) CreateTx(ctx context.Context, tx pgx.Tx) error {
	return f.create(ctx, onPgx(tx))
}

// CreateSQLTx is [Fence.CreateTx] for database/sql.
func (f Fence) CreateSQLTx(ctx context.Context, tx *sql.Tx) error {
	return f.create(ctx, onSQL(tx))
}

// An op is what a method does, for errors and for pg_stat_activity.
type op string

const (
	opAdvance       op = "advance"
	opAdvanceStrict op = "advance strictly"
	opShare         op = "share"
	opCreate        op = "create"
	opGuard         op = "guard a table by"
	opGuardRows     op = "guard the rows of a table by"
	opUnguard       op = "unguard a table of"
	opGuards        op = "list the tables guarded by"
	opRun           op = "run"
)

func (f Fence) advance(ctx context.Context, q query, token Token) error {
	_, err := f.pass(ctx, q, opAdvance, advanceSQL, token, token)
	return err
}

func (f Fence) advanceStrict(ctx context.Context, q query, token Token) error {
	_, err := f.pass(ctx, q, opAdvanceStrict, advanceStrictSQL, token, token-1)
	return err
}

func (f Fence) share(ctx context.Context, q query, token Token) error {
	fence, err := f.pass(ctx, q, opShare, shareSQL, token, token)
	if err == nil && fence < token {
		return fmt.Errorf("%w: share %q: the fence is at %d, below token %d", ErrNotRaised, f.Name, fence, token)
	}
	return err
}

// pass runs a statement that locks the row if its fence is at most limit, and finds out why if it returns no row.
func (f Fence) pass(ctx context.Context, q query, o op, body string, token, limit Token) (Token, error) {
	if err := f.validate(q, o, token); err != nil {
		return 0, err
	}
	var fence int64
	var declared bool // to guarded tables; of no use here
	err := q(ctx, f.statement(o, body), f.Name, int64(token)).Scan(&fence, &declared)
	if err == nil {
		return Token(fence), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, f.explain(o, err)
	}

	err = q(ctx, f.statement(o, readSQL), f.Name).Scan(&fence)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, f.missing(o)
	case err != nil:
		return 0, f.explain(o, err)
	case Token(fence) <= limit:
		// The row was made between the two statements. It was not locked, so this is no pass.
		return 0, f.missing(o)
	}
	return 0, &StaleError{Name: f.Name, Token: token, Fence: Token(fence)}
}

func (f Fence) create(ctx context.Context, q query) error {
	// Any token will do: there is none.
	if err := f.validate(q, opCreate, 1); err != nil {
		return err
	}
	var fence int64
	err := q(ctx, f.statement(opCreate, createSQL), f.Name).Scan(&fence)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return f.explain(opCreate, err)
}

func (f Fence) schema() string { return cmp.Or(f.Schema, "public") }

// maxName is what the table allows, maxSchema what the server does not cut off.
const (
	maxName   = 255
	maxSchema = 63
)

// validate refuses input that the server would refuse, or take for something else, before anything is sent.
func (f Fence) validate(q query, o op, token Token) error {
	fault := ""
	switch {
	case q == nil:
		fault = "the transaction is nil"
	case f.Name == "":
		fault = "the name is empty"
	case len(f.Name) > maxName:
		fault = fmt.Sprintf("the name has %d bytes, more than %d", len(f.Name), maxName)
	case strings.ContainsRune(f.Name, 0):
		fault = "the name contains NUL"
	case !utf8.ValidString(f.Name):
		fault = "the name is not UTF-8"
	case len(f.Schema) > maxSchema:
		fault = fmt.Sprintf("the schema has %d bytes, more than %d", len(f.Schema), maxSchema)
	case strings.ContainsRune(f.Schema, 0):
		fault = "the schema contains NUL"
	case !utf8.ValidString(f.Schema):
		fault = "the schema is not UTF-8"
	case token <= 0:
		fault = fmt.Sprintf("token %d is not above 0: no grant gives it", token)
	default:
		return nil
	}
	return fmt.Errorf("fencing: %s %q: %s", o, f.Name, fault)
}
