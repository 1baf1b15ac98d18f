package control

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/pglock"
)

// A leaseLock is a name of a client of package pglock, which renews in the background.
type leaseLock struct {
	client *pglock.Client
	name   string
}

func openLeasehold(s Setup, pool *pgxpool.Pool) (*leaseLock, error) {
	client, err := pglock.New(pool, pglock.Config{Label: s.Label, TTL: s.TTL})
	if err != nil {
		return nil, err
	}
	return &leaseLock{client, s.Name}, nil
}

func (l *leaseLock) take(ctx context.Context) (term, error) {
	lease, err := l.client.Acquire(ctx, l.name)
	if err != nil {
		return nil, err
	}
	return leaseTerm{lease}, nil
}

func (l *leaseLock) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = l.client.Close(ctx) // What it could not release expires.
}

type leaseTerm struct{ lease *pglock.Lease }

func (t leaseTerm) validFor() time.Duration { return t.lease.TimeLeft() }

func (t leaseTerm) ask(_ context.Context, q Question) error {
	switch q {
	case Nothing:
		return nil
	case Clock, Context:
		if t.lease.Err() != nil || t.lease.TimeLeft() <= 0 {
			return errOver
		}
		return nil
	}
	return fmt.Errorf("control: a lease cannot be asked for %q", q)
}

func (t leaseTerm) while(context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.lease.Context())
}

func (t leaseTerm) pass(ctx context.Context, tx pgx.Tx) error { return t.lease.AdvanceTx(ctx, tx) }

func (t leaseTerm) release(ctx context.Context) {
	_ = t.lease.Release(ctx) // It may be lost: that is what is tried.
}
