package pglock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/pglock"
)

// invoiceNightly is started on every instance at the same time. One does the work; the others say who has it.
func invoiceNightly(ctx context.Context, pool *pgxpool.Pool, config pglock.Config) error {
	client, err := pglock.New(pool, config) // The zero config: TTL 60 s, renewed every 20 s.
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
				_, err := tx.Exec(ctx, "INSERT INTO invoices (customer, token) VALUES ($1, $2)", customer, lease.Token())
				return err
			})
			if err != nil {
				return err // fencing.ErrStale if we were paused for too long.
			}
		}
		return nil
	})
	var held *pglock.HeldError
	if errors.As(err, &held) {
		fmt.Printf("skipped: %s has it, with token %d\n", held.Holder, held.Token)
		return nil
	}
	return err
}
