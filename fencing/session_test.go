package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
)

// patience is for a step that has to end. It is long because the machine may be slow; nothing waits for it in a good run.
const patience = 20 * time.Second

// forms are the checks; their names are those in testdata.
var forms = []string{"advance", "strict", "share"}

// drivers are the kinds of transaction; levels what a transaction begins with.
var (
	drivers = []string{"pgx", "database/sql"}
	levels  = []string{"read committed", "repeatable read", "serializable"}
)

var errNoTx = errors.New("no transaction")

// A session is one connection and at most one transaction on it, of either driver.
type session interface {
	begin(ctx context.Context, level string) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
	// scan is one statement of at most one row, in the transaction if there is one. No row leaves dest alone.
	scan(ctx context.Context, dest []any, text string, args ...any) error
	check(ctx context.Context, form string, f fencing.Fence, token fencing.Token) error
	create(ctx context.Context, f fencing.Fence) error
	inTx() bool
}

// connect opens a session that is closed when the test ends. The second result is the server's process for it.
func connect(t testing.TB, driver, dsn string) (session, int32) {
	t.Helper()
	ctx := context.Background()
	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	var s session
	switch driver {
	case "pgx":
		conn, err := pgx.ConnectConfig(ctx, config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close(ctx)) })
		s = &pgxSession{conn: conn}
	case "database/sql":
		db := stdlib.OpenDB(*config)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		s = &sqlSession{db: db}
	}
	var pid int32
	require.NoError(t, s.scan(ctx, []any{&pid}, "SELECT pg_backend_pid()"))
	t.Cleanup(func() { _ = s.rollback(ctx) }) // before the connection is closed
	return s, pid
}

type pgxSession struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

func (s *pgxSession) begin(ctx context.Context, level string) (err error) {
	s.tx, err = s.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
	return err
}

func (s *pgxSession) commit(ctx context.Context) error {
	tx := s.tx
	if tx == nil {
		return errNoTx
	}
	s.tx = nil
	return tx.Commit(ctx)
}

func (s *pgxSession) rollback(ctx context.Context) error {
	if s.tx == nil {
		return nil
	}
	tx := s.tx
	s.tx = nil
	return tx.Rollback(ctx)
}

func (s *pgxSession) scan(ctx context.Context, dest []any, text string, args ...any) error {
	query := s.conn.QueryRow
	if s.tx != nil {
		query = s.tx.QueryRow
	}
	if err := query(ctx, text, args...).Scan(dest...); !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return nil
}

func (s *pgxSession) check(ctx context.Context, form string, f fencing.Fence, token fencing.Token) error {
	return checkTx(ctx, s.tx, form, f, token)
}

func (s *pgxSession) create(ctx context.Context, f fencing.Fence) error { return f.CreateTx(ctx, s.tx) }

func (s *pgxSession) inTx() bool { return s.tx != nil }

func checkTx(ctx context.Context, tx pgx.Tx, form string, f fencing.Fence, token fencing.Token) error {
	switch form {
	case "advance":
		return f.AdvanceTx(ctx, tx, token)
	case "strict":
		return f.AdvanceStrictTx(ctx, tx, token)
	case "share":
		return f.ShareTx(ctx, tx, token)
	}
	return fmt.Errorf("no such form: %q", form)
}

type sqlSession struct {
	db *sql.DB
	tx *sql.Tx
}

func (s *sqlSession) begin(ctx context.Context, level string) (err error) {
	isolation := map[string]sql.IsolationLevel{
		"read committed":  sql.LevelReadCommitted,
		"repeatable read": sql.LevelRepeatableRead,
		"serializable":    sql.LevelSerializable,
	}[level]
	s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	return err
}

func (s *sqlSession) commit(context.Context) error {
	tx := s.tx
	if tx == nil {
		return errNoTx
	}
	s.tx = nil
	return tx.Commit()
}

func (s *sqlSession) rollback(context.Context) error {
	if s.tx == nil {
		return nil
	}
	tx := s.tx
	s.tx = nil
	return tx.Rollback()
}

func (s *sqlSession) scan(ctx context.Context, dest []any, text string, args ...any) error {
	query := s.db.QueryRowContext
	if s.tx != nil {
		query = s.tx.QueryRowContext
	}
	if err := query(ctx, text, args...).Scan(dest...); !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return nil
}

func (s *sqlSession) check(ctx context.Context, form string, f fencing.Fence, token fencing.Token) error {
	return checkSQLTx(ctx, s.tx, form, f, token)
}

func (s *sqlSession) create(ctx context.Context, f fencing.Fence) error {
	return f.CreateSQLTx(ctx, s.tx)
}

func (s *sqlSession) inTx() bool { return s.tx != nil }

func checkSQLTx(ctx context.Context, tx *sql.Tx, form string, f fencing.Fence, token fencing.Token) error {
	switch form {
	case "advance":
		return f.AdvanceSQLTx(ctx, tx, token)
	case "strict":
		return f.AdvanceStrictSQLTx(ctx, tx, token)
	case "share":
		return f.ShareSQLTx(ctx, tx, token)
	}
	return fmt.Errorf("no such form: %q", form)
}

// outcome is a result in the words of testdata.
func outcome(err error) string {
	var stale *fencing.StaleError
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &stale):
		return fmt.Sprintf("stale: fence at %d", stale.Fence)
	case errors.Is(err, fencing.ErrNoFence):
		return "no fence"
	case errors.Is(err, fencing.ErrNotRaised):
		return "not raised"
	case errors.As(err, &pg):
		return "error " + pg.Code
	}
	return err.Error()
}

// blocked tells whether the session with this process waits for a lock of another.
func blocked(t testing.TB, observer *pgx.Conn, pid int32) bool {
	t.Helper()
	var waits bool
	err := observer.QueryRow(context.Background(), "SELECT cardinality(pg_blocking_pids($1)) > 0", pid).Scan(&waits)
	require.NoError(t, err)
	return waits
}

// untilBlockedOr waits until the session waits for a lock, or done is ready to read. It reports whether it is blocked.
func untilBlockedOr[T any](t testing.TB, observer *pgx.Conn, pid int32, done <-chan T) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if len(done) > 0 {
			return false
		}
		if blocked(t, observer, pid) {
			return true
		}
		require.True(t, time.Now().Before(deadline), "neither blocked nor done")
		time.Sleep(time.Millisecond)
	}
}

func observe(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(ctx)) })
	return conn
}

// within is a context for what has to end.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// quoted is the schema for the tests' own statements.
func quoted(schema string) string { return pgx.Identifier{schema}.Sanitize() }

func isStale(err error) bool { return errors.Is(err, fencing.ErrStale) }
