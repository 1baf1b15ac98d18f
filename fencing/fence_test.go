package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// untouchable is a transaction that panics when anything is sent.
type untouchable struct{ pgx.Tx }

func TestFence_BadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 256)
	cases := map[string]struct {
		fence fencing.Fence
		token fencing.Token
		want  string
	}{
		"empty name":           {fencing.Fence{}, 1, "the name is empty"},
		"long name":            {fencing.Fence{Name: long}, 1, "the name has 256 bytes, more than 255"},
		"long name of runes":   {fencing.Fence{Name: strings.Repeat("é", 128)}, 1, "the name has 256 bytes, more than 255"},
		"NUL in name":          {fencing.Fence{Name: "a\x00b"}, 1, "the name contains NUL"},
		"name is not UTF-8":    {fencing.Fence{Name: "a\xffb"}, 1, "the name is not UTF-8"},
		"long schema":          {fencing.Fence{Name: "a", Schema: long[:64]}, 1, "the schema has 64 bytes, more than 63"},
		"NUL in schema":        {fencing.Fence{Name: "a", Schema: "s\x00"}, 1, "the schema contains NUL"},
		"schema is not UTF-8":  {fencing.Fence{Name: "a", Schema: "\xff"}, 1, "the schema is not UTF-8"},
		"token 0":              {fencing.Fence{Name: "a"}, 0, "token 0 is not above 0"},
		"token of another day": {fencing.Fence{Name: "a"}, -7, "token -7 is not above 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, form := range forms {
				require.ErrorContains(t, checkTx(t.Context(), untouchable{}, form, c.fence, c.token), c.want)
				require.ErrorContains(t, checkSQLTx(t.Context(), new(sql.Tx), form, c.fence, c.token), c.want)
			}
			if c.token > 0 {
				require.ErrorContains(t, c.fence.CreateTx(t.Context(), untouchable{}), c.want)
				require.ErrorContains(t, c.fence.CreateSQLTx(t.Context(), new(sql.Tx)), c.want)
			}
		})
	}

	f := fencing.Fence{Name: "a"}
	const want = `"a": the transaction is nil`
	for _, form := range forms {
		require.ErrorContains(t, checkTx(t.Context(), nil, form, f, 1), want)
		require.ErrorContains(t, checkSQLTx(t.Context(), nil, form, f, 1), want)
	}
	require.ErrorContains(t, f.CreateTx(t.Context(), nil), want)
	require.ErrorContains(t, f.CreateSQLTx(t.Context(), nil), want)
}

func TestStaleError_SaysNameTokenAndFence(t *testing.T) {
	t.Parallel()
	err := error(&fencing.StaleError{Name: "job", Token: 6, Fence: 7})
	require.ErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, fencing.ErrNoFence)
	require.EqualError(t, err, `fencing: token 6 for "job" is stale: the fence is at 7`)
	require.EqualError(t, &fencing.StaleError{Name: "job", Token: 7, Fence: 7},
		`fencing: token 7 for "job" is stale: it was used before, and this check passes it once`)
}

// TestFence_EveryExecModeAndQuoting: names that break what forgets to quote or to cast, in each way that pgx sends them.
func TestFence_EveryExecModeAndQuoting(t *testing.T) {
	t.Parallel()
	dsn, plain := pgtest.Migrated(t)
	odd := plain + ` "$1'\{schema}--`
	owner := observe(t, dsn)
	_, err := owner.Exec(within(t), "ALTER SCHEMA "+quoted(plain)+" RENAME TO "+quoted(odd))
	require.NoError(t, err)
	t.Cleanup(func() { // pgtest drops it by its name
		_, err := owner.Exec(within(t), "ALTER SCHEMA "+quoted(odd)+" RENAME TO "+quoted(plain))
		require.NoError(t, err)
	})

	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	const high = fencing.Token(1<<62 + 1) // no float on the way
	for _, mode := range modes {
		config, err := pgx.ParseConfig(dsn)
		require.NoError(t, err)
		config.DefaultQueryExecMode = mode
		f := fencing.Fence{Name: `o'b"\$1 {schema} é ` + mode.String(), Schema: odd}

		conn, err := pgx.ConnectConfig(within(t), config)
		require.NoError(t, err, mode)
		tx, err := conn.Begin(within(t))
		require.NoError(t, err, mode)
		require.NoError(t, f.CreateTx(within(t), tx), mode)
		require.NoError(t, f.CreateTx(within(t), tx), mode)
		require.NoError(t, f.AdvanceTx(within(t), tx, high), mode)
		require.NoError(t, f.ShareTx(within(t), tx, high), mode)
		require.ErrorIs(t, f.ShareTx(within(t), tx, high+1), fencing.ErrNotRaised, mode)
		require.NoError(t, f.AdvanceStrictTx(within(t), tx, high+1), mode)
		require.NoError(t, tx.Commit(within(t)), mode)
		require.NoError(t, conn.Close(within(t)), mode)

		db := stdlib.OpenDB(*config)
		sqlTx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err, mode)
		require.NoError(t, f.CreateSQLTx(within(t), sqlTx), mode)
		var stale *fencing.StaleError
		for _, form := range forms {
			require.ErrorAs(t, checkSQLTx(within(t), sqlTx, form, f, high), &stale, "%s %s", form, mode)
			require.Equal(t, fencing.StaleError{Name: f.Name, Token: high, Fence: high + 1}, *stale)
		}
		require.NoError(t, f.AdvanceSQLTx(within(t), sqlTx, high+1), mode)
		require.NoError(t, f.ShareSQLTx(within(t), sqlTx, high+1), mode)
		require.NoError(t, f.AdvanceStrictSQLTx(within(t), sqlTx, high+2), mode)
		require.NoError(t, sqlTx.Commit(), mode)
		require.NoError(t, db.Close(), mode)
	}
}

// TestFence_MissingTableNamesTheCommand: not ErrNoFence, which is about a row, and the server's error stays reachable.
func TestFence_MissingTableNamesTheCommand(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	for _, driver := range drivers {
		s, _ := connect(t, driver, dsn)
		for schema, code := range map[string]string{schema: "42P01", "no such schema": "42P01"} {
			f := fencing.Fence{Name: "job", Schema: schema}
			for _, form := range append([]string{"create"}, forms...) {
				require.NoError(t, s.begin(t.Context(), levels[0]))
				var err error
				if form == "create" {
					err = s.create(within(t), f)
				} else {
					err = s.check(within(t), form, f, 1)
				}
				require.ErrorContains(t, err, "run: pglock migrate up -schema ")
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg)
				require.Equal(t, code, pg.Code)
				require.NotErrorIs(t, err, fencing.ErrNoFence)
				require.NotErrorIs(t, err, fencing.ErrStale)
				require.NoError(t, s.rollback(within(t)))
			}
		}
	}
	conn := observe(t, dsn)
	tx, err := conn.Begin(within(t))
	require.NoError(t, err)
	err = fencing.Fence{Name: "job", Schema: "it's"}.AdvanceTx(within(t), tx, 1)
	require.ErrorContains(t, err, `no table job_fences of this version in schema "it's": run: pglock migrate up -schema 'it'\''s'`)
	require.NoError(t, tx.Rollback(within(t)))
}

// meddled is a transaction in which somebody else does something before its n-th statement.
type meddled struct {
	pgx.Tx
	before map[int]func()
	count  int
}

func (m *meddled) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	m.count++
	if meddle := m.before[m.count]; meddle != nil {
		meddle()
	}
	return m.Tx.QueryRow(ctx, text, args...)
}

// TestFence_RowMadeBetweenTheStatementsIsNoPass: the UPDATE found no row, the read that explains it finds one that would
// have passed. It was not locked.
func TestFence_RowMadeBetweenTheStatementsIsNoPass(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	conn, other := observe(t, dsn), observe(t, dsn)
	for _, form := range forms {
		f := fencing.Fence{Name: form, Schema: schema}
		tx, err := conn.Begin(within(t))
		require.NoError(t, err)
		err = checkTx(within(t), &meddled{Tx: tx, before: map[int]func(){2: func() {
			require.NoError(t, pgx.BeginFunc(within(t), other, func(tx pgx.Tx) error { return f.CreateTx(within(t), tx) }))
		}}}, form, f, 1)
		require.ErrorIs(t, err, fencing.ErrNoFence)
		require.NoError(t, tx.Rollback(within(t)))
	}
}

// TestFence_RaisedBetweenTheStatementsIsStillStale: the error then has the newer value.
func TestFence_RaisedBetweenTheStatementsIsStillStale(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	conn, other := observe(t, dsn), observe(t, dsn)
	for _, form := range forms {
		f := fencing.Fence{Name: form, Schema: schema}
		raise := func(token fencing.Token) {
			require.NoError(t, pgx.BeginFunc(within(t), other, func(tx pgx.Tx) error {
				return errors.Join(f.CreateTx(within(t), tx), f.AdvanceTx(within(t), tx, token))
			}))
		}
		raise(5)
		tx, err := conn.Begin(within(t))
		require.NoError(t, err)
		err = checkTx(within(t), &meddled{Tx: tx, before: map[int]func(){2: func() { raise(9) }}}, form, f, 4)
		var stale *fencing.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, fencing.Token(9), stale.Fence)
		require.NoError(t, tx.Rollback(within(t)))
	}
}

// TestFence_ContextEndsWhileWaiting: the context's error stays reachable, it is not stale, and nothing can commit.
func TestFence_ContextEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	f := fencing.Fence{Name: "job", Schema: schema}
	grant, _ := connect(t, "pgx", dsn)
	require.NoError(t, grant.begin(t.Context(), levels[0]))
	require.NoError(t, grant.create(within(t), f))
	require.NoError(t, grant.commit(within(t)))
	require.NoError(t, grant.begin(t.Context(), levels[0]))
	require.NoError(t, grant.check(within(t), "advance", f, 1))
	for _, driver := range drivers {
		for _, form := range forms {
			s, _ := connect(t, driver, dsn)
			require.NoError(t, s.begin(t.Context(), levels[0]))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := s.check(ctx, form, f, 1)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, "%s %s", driver, form)
			require.NotErrorIs(t, err, fencing.ErrStale)
			require.Error(t, s.commit(within(t)), "%s %s", driver, form)
		}
	}
	require.NoError(t, grant.rollback(within(t)))
}

// TestFence_EndedTransactionIsAnError: the driver says so, and the check is not passed.
func TestFence_EndedTransactionIsAnError(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	f := fencing.Fence{Name: "job", Schema: schema}
	conn := observe(t, dsn)
	tx, err := conn.Begin(within(t))
	require.NoError(t, err)
	require.NoError(t, f.CreateTx(within(t), tx))
	require.NoError(t, tx.Commit(within(t)))
	require.ErrorIs(t, f.AdvanceTx(within(t), tx, 1), pgx.ErrTxClosed)
	require.ErrorIs(t, f.CreateTx(within(t), tx), pgx.ErrTxClosed)

	config, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	sqlTx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, sqlTx.Rollback())
	require.ErrorIs(t, f.ShareSQLTx(within(t), sqlTx, 1), sql.ErrTxDone)
}

// TestFence_DeadlockPassesThrough: one of two is chosen by the server; its error is the server's, and the other passes.
func TestFence_DeadlockPassesThrough(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	const x, y = "x", "y"
	cases := map[string]struct {
		form          string
		first, second [2]string // fences of the two transactions: by form, then by an exclusive check
	}{
		"two fences in two orders":      {"advance", [2]string{x, y}, [2]string{y, x}},
		"shared first, then exclusive":  {"share", [2]string{x, x}, [2]string{x, x}},
		"shared and exclusive, crossed": {"share", [2]string{x, y}, [2]string{y, x}},
	}
	for name, c := range cases {
		for _, driver := range drivers {
			t.Run(name+"/"+driver, func(t *testing.T) {
				t.Parallel()
				fence := func(name string) fencing.Fence {
					return fencing.Fence{Name: t.Name() + " " + name, Schema: schema}
				}
				require.NoError(t, pgx.BeginFunc(within(t), observe(t, dsn), func(tx pgx.Tx) error {
					return errors.Join(
						fence(x).CreateTx(within(t), tx), fence(x).AdvanceTx(within(t), tx, 1),
						fence(y).CreateTx(within(t), tx), fence(y).AdvanceTx(within(t), tx, 1))
				}))
				a, _ := connect(t, driver, dsn)
				b, _ := connect(t, driver, dsn)
				require.NoError(t, a.begin(t.Context(), levels[0]))
				require.NoError(t, b.begin(t.Context(), levels[0]))
				require.NoError(t, a.check(within(t), c.form, fence(c.first[0]), 1))
				require.NoError(t, b.check(within(t), c.form, fence(c.second[0]), 1))

				// The victim's transaction is aborted at once, and the other goes on.
				results := make(chan error, 2)
				go func() { results <- a.check(within(t), "advance", fence(c.first[1]), 1) }()
				go func() { results <- b.check(within(t), "advance", fence(c.second[1]), 1) }()
				victim, winner := <-results, <-results
				if victim == nil {
					victim, winner = winner, victim
				}
				require.NoError(t, winner)
				var pg *pgconn.PgError
				require.ErrorAs(t, victim, &pg)
				require.Equal(t, "40P01", pg.Code)
				require.NotErrorIs(t, victim, fencing.ErrStale)
				require.NoError(t, a.rollback(within(t)))
				require.NoError(t, b.rollback(within(t)))
			})
		}
	}
}

// TestFence_NeedsSelectAndUpdate holds what the documentation says about privileges.
func TestFence_NeedsSelectAndUpdate(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	f := fencing.Fence{Name: "job", Schema: schema}
	conn := observe(t, dsn)
	writer := quoted(schema + " writer")
	for granted, want := range map[string]string{
		"SELECT, UPDATE": "ok",
		"SELECT":         "error 42501",
		"UPDATE":         "error 42501",
	} {
		for _, form := range forms {
			tx, err := conn.Begin(within(t))
			require.NoError(t, err)
			require.NoError(t, f.CreateTx(within(t), tx))
			if form == "share" {
				require.NoError(t, f.AdvanceTx(within(t), tx, 1))
			}
			_, err = tx.Exec(within(t), "CREATE ROLE "+writer) // gone with the transaction
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "42501" {
				require.NoError(t, tx.Rollback(within(t)))
				pgtest.Skip(t, "the role of the DSN may not create roles")
			}
			require.NoError(t, err)
			for _, text := range []string{
				"GRANT USAGE ON SCHEMA " + quoted(schema) + " TO " + writer,
				"GRANT " + granted + " ON " + quoted(schema) + ".job_fences TO " + writer,
				"SET LOCAL ROLE " + writer,
			} {
				_, err = tx.Exec(within(t), text)
				require.NoError(t, err)
			}
			require.Equal(t, want, outcome(checkTx(within(t), tx, form, f, 1)), "%s with %s", form, granted)
			require.NoError(t, tx.Rollback(within(t)))
		}
	}
}
