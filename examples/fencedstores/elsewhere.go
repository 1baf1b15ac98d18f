package fencedstores

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
)

// CreateElsewhere makes the fence in another database than the lock's. Once, when that database is set up, after
// "pglock migrate up" there.
func CreateElsewhere(ctx context.Context, elsewhere *pgxpool.Pool, fence fencing.Fence) error {
	return pgx.BeginFunc(ctx, elsewhere, func(tx pgx.Tx) error { return fence.CreateTx(ctx, tx) })
}

// WriteElsewhere writes to that database under the token of a lease. The first transaction of a term raises the fence there; the
// shared form raises nothing, and is refused.
func WriteElsewhere(ctx context.Context, elsewhere *pgxpool.Pool, fence fencing.Fence, token fencing.Token, write func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, elsewhere, func(tx pgx.Tx) error {
		if err := fence.AdvanceTx(ctx, tx, token); err != nil {
			return err
		}
		return write(tx)
	})
}
