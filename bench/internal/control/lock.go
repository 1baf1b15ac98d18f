package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errOver is a holder's own finding that it has the lock no more.
var errOver = errors.New("control: the lock is over")

// A lock is one name that a worker can take.
type lock interface {
	// take waits until the lock is this worker's. What keeps it goes on in the background until release.
	take(ctx context.Context) (term, error)
	close()
}

// A term is one hold of a lock.
type term interface {
	// validFor is how long the lock is still the holder's, by what the lock says without asking anybody.
	validFor() time.Duration
	// ask returns errOver if the answer to the question is that the lock is over.
	ask(context.Context, Question) error
	// while is a context that ends with the validity.
	while(context.Context) (context.Context, context.CancelFunc)
	// pass passes the fence in the writing transaction.
	pass(context.Context, pgx.Tx) error
	release(context.Context)
}

// openLock opens the lock of a setup. renewed is called, on another goroutine, when the validity has moved.
func openLock(s Setup, pool *pgxpool.Pool, renewed func(time.Duration)) (lock, error) {
	switch s.Regime.Lock {
	case Leasehold:
		return openLeasehold(s, pool)
	case Redlock:
		return openRedlock(s, renewed), nil
	}
	return nil, fmt.Errorf("control: unknown lock %q", s.Regime.Lock)
}
