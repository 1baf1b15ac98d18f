package fieldcases_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// ShedLock 2201 and nine others: only the store that receives the write can refuse it.

// A writer writes one invoice in a fenced transaction. checkFirst says whether the fence is passed before the write.
type writer struct {
	name  string
	write func(ctx context.Context, p place, fence fencing.Fence, token fencing.Token, by string) error
}

// writers are the ways to write: two kinds of transactions, two forms of the check, and its two places.
func writers(pool *sql.DB) []writer {
	const insert = "INSERT INTO %s.invoices (written_by) VALUES ($1)"
	viaPgx := func(check func(fencing.Fence) func(context.Context, pgx.Tx, fencing.Token) error, first bool, level pgx.TxIsoLevel) func(
		context.Context, place, fencing.Fence, fencing.Token, string) error {
		return func(ctx context.Context, p place, fence fencing.Fence, token fencing.Token, by string) error {
			return pgx.BeginTxFunc(ctx, p.admin, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				write := func() error {
					_, err := tx.Exec(ctx, p.sql(insert), by)
					return err
				}
				pass := func() error { return check(fence)(ctx, tx, token) }
				if !first {
					write, pass = pass, write
				}
				if err := pass(); err != nil {
					return err
				}
				return write()
			})
		}
	}
	viaSQL := func(ctx context.Context, p place, fence fencing.Fence, token fencing.Token, by string) error {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, p.sql(insert), by); err != nil {
			return err
		}
		if err := fence.AdvanceSQLTx(ctx, tx, token); err != nil {
			return err
		}
		return tx.Commit()
	}
	advance := func(f fencing.Fence) func(context.Context, pgx.Tx, fencing.Token) error { return f.AdvanceTx }
	share := func(f fencing.Fence) func(context.Context, pgx.Tx, fencing.Token) error { return f.ShareTx }
	return []writer{
		{"advance, then write", viaPgx(advance, true, pgx.ReadCommitted)},
		{"write, then advance", viaPgx(advance, false, pgx.ReadCommitted)},
		{"write, then advance, repeatable read", viaPgx(advance, false, pgx.RepeatableRead)},
		{"write, then advance, serializable", viaPgx(advance, false, pgx.Serializable)},
		{"share, then write", viaPgx(share, true, pgx.ReadCommitted)},
		{"write, then share", viaPgx(share, false, pgx.ReadCommitted)},
		{"database/sql", viaSQL},
	}
}

func TestCase05_StaleHolderWritesNothing(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.exec(t, "CREATE TABLE %s.invoices (id bigint GENERATED ALWAYS AS IDENTITY, written_by text NOT NULL)")
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	a := p.through(dsn).client(t, pglock.Config{
		Label: "a", TTL: 5 * time.Second, RenewInterval: 500 * time.Millisecond, RequestTimeout: 3 * time.Second,
	})
	b := p.client(t, pglock.Config{Label: "b", TTL: time.Minute})
	require.EqualValues(t, 4, grants(t, b, "invoices", 4))
	old := take(t, a, "invoices")
	require.EqualValues(t, 5, old.Token())

	written := func(by string) int {
		return value[int](t, p, "SELECT count(*) FROM %s.invoices WHERE written_by = $1", by)
	}
	db := stdlib.OpenDBFromPool(p.admin)
	defer func() { require.NoError(t, db.Close()) }()
	ways := writers(db)
	for _, w := range ways {
		require.NoError(t, w.write(t.Context(), p, old.Fence(), old.Token(), "a"), w.name)
	}
	require.Equal(t, len(ways), written("a"))

	// A is in the middle of a transaction that has written and not yet passed the fence.
	open, err := p.admin.Begin(t.Context())
	require.NoError(t, err)
	defer open.Rollback(context.Background())
	_, err = open.Exec(t.Context(), p.sql("INSERT INTO %s.invoices (written_by) VALUES ('a, late')"))
	require.NoError(t, err)

	proxy.Set(faultnet.BlackHole())
	next := takeSoon(t, b, "invoices")
	require.EqualValues(t, 6, next.Token())
	for _, w := range ways {
		require.NoError(t, w.write(t.Context(), p, next.Fence(), next.Token(), "b"), w.name)
	}

	// A does not ask its lease, which knows better by now: the database has to refuse.
	var stale *fencing.StaleError
	require.ErrorAs(t, old.AdvanceTx(t.Context(), open), &stale)
	require.NoError(t, open.Rollback(t.Context()))
	for _, w := range ways {
		err := w.write(t.Context(), p, old.Fence(), old.Token(), "a, stale")
		require.ErrorIs(t, err, fencing.ErrStale, w.name)
		require.ErrorAs(t, err, &stale, w.name)
		require.EqualValues(t, 5, stale.Token, w.name)
		require.EqualValues(t, 6, stale.Fence, w.name)
	}
	require.Equal(t, len(ways), written("a"))
	require.Zero(t, written("a, late"))
	require.Zero(t, written("a, stale"))

	for _, w := range ways {
		require.NoError(t, w.write(t.Context(), p, next.Fence(), next.Token(), "b"), w.name)
	}
	require.Equal(t, 2*len(ways), written("b"))
	require.ErrorIs(t, old.Err(), pglock.ErrLost)
	require.NoError(t, next.Err())
}
