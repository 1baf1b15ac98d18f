package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/testproc"
	"github.com/leasehold-go/leasehold/pglock"
)

// A holder carries out commands. The main goroutine alone uses it.
type holder struct {
	setup    testproc.Setup
	pool     *pgxpool.Pool
	size     int32 // of the pool
	client   *pglock.Client
	out      *json.Encoder
	tookOver atomic.Bool // the newest term is one that was taken over

	lease    *pglock.Lease // the newest, lost or not
	lossTold bool
	writes   int

	hungry sync.WaitGroup
	feed   func() // ends the queries that keep the pool busy
}

func (h *holder) do(ctx context.Context, c testproc.Command) {
	switch c {
	case testproc.Try:
		h.acquire(h.client.TryAcquire(ctx, h.setup.Name))
	case testproc.Acquire:
		h.acquire(h.client.Acquire(ctx, h.setup.Name))
	case testproc.Write:
		h.write(ctx, true)
	case testproc.Insert:
		h.write(ctx, false)
	case testproc.Starve:
		h.starve(ctx)
	case testproc.Feed:
		h.feed()
		h.hungry.Wait()
		h.tell(testproc.Event{Kind: testproc.Fed})
	case testproc.Release:
		if err := h.lease.Release(ctx); err != nil {
			h.fail(err)
			return
		}
		h.lossTold = true // Nothing is lost any more.
		h.tell(testproc.Event{Kind: testproc.Released, Token: int64(h.lease.Token())})
	default:
		h.fail(fmt.Errorf("unknown command %q", c))
	}
}

func (h *holder) acquire(lease *pglock.Lease, err error) {
	var held *pglock.HeldError
	switch {
	case err == nil:
		h.lease, h.lossTold = lease, false
		h.tell(testproc.Event{Kind: testproc.Acquired, Token: int64(lease.Token()), TookOver: h.tookOver.Load()})
	case errors.As(err, &held):
		h.tell(testproc.Event{Kind: testproc.Held, Token: int64(held.Token), Holder: held.Holder, Left: held.TimeLeft, Error: err.Error()})
	default:
		h.fail(err)
	}
}

// ended is closed when the lease is over and nobody has been told.
func (h *holder) ended() <-chan struct{} {
	if h.lease == nil || h.lossTold {
		return nil
	}
	return h.lease.Context().Done()
}

func (h *holder) noticeLoss() {
	if h.lease == nil || h.lossTold {
		return
	}
	err := h.lease.Err()
	var lost *pglock.LostError
	if errors.As(err, &lost) {
		h.lossTold = true
		h.tell(testproc.Event{Kind: testproc.Lost, Token: int64(lost.Token), Reason: string(lost.Reason), Error: err.Error()})
	}
}

// write writes in one transaction. Where the connection broke it tries again, which is harmless: rows have the number of
// the command.
func (h *holder) write(ctx context.Context, fenced bool) {
	h.writes++
	var stale *fencing.StaleError
	var err error
	for range 10 {
		err = h.writeOnce(ctx, fenced)
		var refusal *pgconn.PgError
		if err == nil || errors.As(err, &stale) || errors.As(err, &refusal) && refusal.Severity == "ERROR" {
			break
		}
	}
	switch {
	case err == nil:
		h.tell(testproc.Event{Kind: testproc.Written, Token: int64(h.lease.Token())})
	case stale != nil:
		h.tell(testproc.Event{Kind: testproc.Refused, Token: int64(stale.Token), Fence: int64(stale.Fence), Error: err.Error()})
	default:
		h.fail(err)
	}
}

func (h *holder) writeOnce(ctx context.Context, fenced bool) error {
	// Of the caller, not of the lease: it is the fence that is to refuse.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
		if fenced {
			if err := h.lease.AdvanceTx(ctx, tx); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `
INSERT INTO writes (label, token, fenced, command, part)
SELECT $1::text, $2::bigint, $3::boolean, $4::integer, part
FROM generate_series(1, $5::integer) AS s (part)
ON CONFLICT DO NOTHING`, h.setup.Label, int64(h.lease.Token()), fenced, h.writes, testproc.RowsPerWrite)
		return err
	})
}

// starve starts as many long queries as the pool has connections.
func (h *holder) starve(ctx context.Context) {
	ctx, h.feed = context.WithCancel(ctx)
	for range h.size {
		conn, err := h.pool.Acquire(ctx)
		if err != nil {
			h.fail(err)
			return
		}
		h.hungry.Go(func() {
			defer conn.Release()
			_, _ = conn.Exec(ctx, "SELECT pg_sleep(3600)") // Ends by Feed.
		})
	}
	h.tell(testproc.Event{Kind: testproc.Starved})
}

func (h *holder) fail(err error) { h.tell(testproc.Event{Kind: testproc.Failed, Error: err.Error()}) }

func (h *holder) tell(e testproc.Event) {
	if err := h.out.Encode(e); err != nil {
		os.Exit(1) // Nobody listens any more.
	}
}
