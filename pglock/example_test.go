package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// invoiceNightly is started on every instance at the same time. One does the work; the others say who has it.
//
// The lease does not know that the work is done: an instance that comes late does it again, and must find nothing to do. Here
// the key of the table sees to that: CREATE TABLE invoices (customer int PRIMARY KEY, token bigint NOT NULL).
func invoiceNightly(ctx context.Context, pool *pgxpool.Pool, config pglock.Config) error {
	client, err := pglock.New(pool, config) // The zero config: TTL 60 s, renewed every 20 s. A service keeps one client.
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(ctx) }()

	err = client.TryDo(ctx, "invoice-job", func(ctx context.Context, lease *pglock.Lease) error {
		for customer := 1; customer <= 3; customer++ {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				// The fence and the write are one transaction: if a newer holder exists, neither happens.
				if err := lease.AdvanceTx(ctx, tx); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "INSERT INTO invoices (customer, token) VALUES ($1, $2) ON CONFLICT DO NOTHING", customer, lease.Token())
				return err
			})
			if err != nil {
				return err // fencing.ErrStale if we were paused for too long.
			}
		}
		return nil
	})
	var held *pglock.HeldError
	if errors.As(err, &held) && !held.Busy { // Busy: it is not known whether anybody has it.
		fmt.Printf("skipped: %s has it, with token %d\n", held.Holder, held.Token)
		return nil
	}
	return err
}

func TestExample_OneInstanceInvoices(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	pool := pgtest.PoolWith(t, config)
	_, err = pool.Exec(t.Context(), "CREATE TABLE invoices (customer int PRIMARY KEY, token bigint NOT NULL)")
	require.NoError(t, err)

	in := installation{dsn: dsn, schema: schema, pool: pool}
	other := take(t, in.client(t, pglock.Config{Label: "another instance"}), "invoice-job")
	require.NoError(t, invoiceNightly(t.Context(), pool, pglock.Config{Schema: schema}))
	require.Zero(t, value[int](t, in, "SELECT count(*) FROM %s.invoices"), "skipped")

	require.NoError(t, other.Release(t.Context()))
	require.NoError(t, invoiceNightly(t.Context(), pool, pglock.Config{Schema: schema}))
	require.Equal(t, 3, value[int](t, in, "SELECT count(*) FROM %s.invoices WHERE token = 2"))
	require.NoError(t, invoiceNightly(t.Context(), pool, pglock.Config{Schema: schema}), "late, and nothing is left to do")
	require.Equal(t, 3, value[int](t, in, "SELECT count(*) FROM %s.invoices WHERE token = 2"))
}
