package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/pglock"
)

// operator is the application_name of what people do by hand.
const operator = "operator"

// revoked raises the token of a lease that somebody has and of its fence by hand, and leaves the row to its holder: its
// term is over all the same. Only terms that their clients have been told of: an attempt whose answer was lost asks again,
// finds the row to be its own, and rightly takes the token that the operator gave it.
var revoked = fault{"revoke", 2, session, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	name := plan.One(d, r.options.Names)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL application_name = "+operator); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, inSchema(`WITH raised AS (
				UPDATE {schema}.job_fences AS f SET token = f.token + 1
				FROM {schema}.pglock_leases AS l
				WHERE f.name = $1 AND l.name = f.name AND l.expires_at > clock_timestamp()
					AND l.renewed_at > l.acquired_at AND l.acquired_at < clock_timestamp() - interval '800 ms'
				RETURNING f.name, f.token
			)
			UPDATE {schema}.pglock_leases AS l SET token = r.token FROM raised AS r
			WHERE l.name = r.name AND l.token < r.token`, r.options.Schema), name)
			return err
		})
	})
	return deed{text: fmt.Sprintf("%q: %s", name, said(err))}, nil
}}

// raised is pglock epoch raise: it frees every lease and lifts all tokens.
var raised = fault{"raise epoch", 1, session, func(ctx context.Context, r *run, _ plan.Dice) (deed, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return deed{text: said(r.raise(ctx))}, nil
}}

func (r *run) raise(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(r.options.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["application_name"] = operator
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	locks, err := pglock.New(pool, pglock.Config{Schema: r.options.Schema, Label: operator})
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close(context.WithoutCancel(ctx)) }() // It holds nothing.
	_, err = locks.RaiseEpoch(ctx)
	return err
}
