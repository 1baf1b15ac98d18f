package fencedhttp

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
)

// Create makes the fence of a route in the service's own database. Once, when the service is set up: a fence that is made anew
// lets stale tokens pass.
func Create(ctx context.Context, pool *pgxpool.Pool, fence fencing.Fence) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return fence.CreateTx(ctx, tx) })
}

// Postgres passes a request on if its token is not below the fence. The check, and what next writes with [Tx], are one
// transaction; the answer of next is sent after its commit.
//
// An answer of 400 or above undoes the writes of next, not the check: a lower token is refused from then on. Until the first
// request of a holder has come, the one before still passes, as nobody here knows of the grant.
func Postgres(pool *pgxpool.Pool, fence fencing.Fence, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, refused := tokenOf(r, fence.Name)
		if refused != nil {
			refused.write(w)
			return
		}
		answer := newReply()
		err := pgx.BeginTxFunc(r.Context(), pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return check(r, tx, fence, token, answer, next)
		})
		var old *fencing.StaleError
		switch {
		case errors.As(err, &old):
			stale(old.Fence).write(w)
		case err != nil:
			log.Printf("fencedhttp: %s %s: %v", r.Method, r.URL.Path, err)
			unknown().write(w)
		default:
			answer.send(w)
		}
	})
}

// errUndone takes back what a handler wrote, to the savepoint after the check.
var errUndone = errors.New("fencedhttp: undone")

func check(r *http.Request, tx pgx.Tx, fence fencing.Fence, token fencing.Token, answer *reply, next http.Handler) error {
	ctx := r.Context()
	// A process that is frozen in its handler must not keep the next holder out.
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10s'"); err != nil {
		return err
	}
	if err := fence.AdvanceTx(ctx, tx, token); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
		next.ServeHTTP(answer, r.WithContext(context.WithValue(ctx, txKey{}, inner)))
		if answer.status >= http.StatusBadRequest {
			return errUndone
		}
		return nil
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

type txKey struct{}

// Tx is the transaction that a handler behind [Postgres] writes in. It must not commit it, and nothing that it does beside it
// is fenced. It is nil elsewhere.
func Tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(txKey{}).(pgx.Tx)
	return tx
}
