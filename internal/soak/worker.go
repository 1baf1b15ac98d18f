package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// names is how many names all workers share: fewer than workers, so that they meet.
const names = 5

// config has short terms, so that all that can happen to one does often.
var config = pglock.Config{
	Label: "soak", TTL: 3 * time.Second, RenewInterval: 300 * time.Millisecond, RequestTimeout: 2 * time.Second,
	PollInterval: 50 * time.Millisecond,
}

// A worker is one process's worth of client, with a pool of its own. One goroutine uses it.
type worker struct {
	run    *run
	random *rand.Rand
	pool   *pgxpool.Pool
	client *pglock.Client
}

// work goes on until ctx ends.
func (w *worker) work(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.client == nil {
			if err := w.begin(ctx); err != nil {
				return err
			}
		}
		op := operations[w.random.IntN(len(operations))]
		err := op.do(w, ctx, fmt.Sprint("name ", w.random.IntN(names)))
		w.run.count(op.name, err)
		select { // Breath for the others, and for the machine.
		case <-ctx.Done():
		case <-time.After(time.Duration(w.random.IntN(20)) * time.Millisecond):
		}
	}
	return w.end()
}

// begin makes a client with a pool of its own.
func (w *worker) begin(ctx context.Context) error {
	settings, err := pgxpool.ParseConfig(w.run.options.DSN)
	if err != nil {
		return err
	}
	settings.MaxConns = 3
	settings.ConnConfig.RuntimeParams["application_name"] = application
	if w.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), settings); err != nil {
		return err
	}
	c := config
	c.Schema, c.OnEvent = w.run.options.Schema, w.run.event
	if w.client, err = pglock.New(w.pool, c); err != nil {
		w.pool.Close()
		return err
	}
	w.run.join(w.pool)
	return nil
}

// end closes the client and its pool. What could not be released expires.
func (w *worker) end() error {
	if w.client == nil {
		return nil
	}
	_ = w.client.Close(context.Background())
	w.run.leave(w.pool)
	w.pool.Close()
	w.client = nil
	return nil
}

// operations are drawn at random; what is twice in the list comes twice as often.
var operations = []struct {
	name string
	do   func(w *worker, ctx context.Context, name string) error
}{
	{"do", (*worker).do}, {"do", (*worker).do}, {"do", (*worker).do},
	{"hold", (*worker).hold}, {"hold", (*worker).hold},
	{"give up", (*worker).giveUp},
	{"cancel", (*worker).cancel},
	{"lose", (*worker).lose},
	{"try", (*worker).try}, {"try", (*worker).try},
	{"begin anew", (*worker).beginAnew},
}

// do waits for a lease and writes under its fence.
func (w *worker) do(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*config.TTL)
	defer cancel()
	return w.client.Do(ctx, name, func(ctx context.Context, lease *pglock.Lease) error { return w.write(ctx, lease) })
}

// try asks once.
func (w *worker) try(ctx context.Context, name string) error {
	return w.client.TryDo(ctx, name, func(ctx context.Context, lease *pglock.Lease) error { return w.write(ctx, lease) })
}

// hold keeps a lease for some renewals and passes the shared form of the fence.
func (w *worker) hold(ctx context.Context, name string) error {
	lease, err := w.client.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	select {
	case <-lease.Context().Done():
	case <-ctx.Done():
	case <-time.After(time.Duration(w.random.IntN(4)) * config.RenewInterval):
	}
	err = lease.Fence().Run(ctx, w.pool, lease.Token(), fencing.RunOptions{Shared: true}, w.insert(lease))
	return errors.Join(err, lease.Release(ctx))
}

// giveUp is a waiter whose time is over soon.
func (w *worker) giveUp(ctx context.Context, name string) error {
	within, cancel := context.WithTimeout(ctx, time.Duration(w.random.IntN(100))*time.Millisecond)
	defer cancel()
	lease, err := w.client.Acquire(within, name)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// cancel ends an attempt in the middle: whether it was granted nobody knows, and what was is released in the background.
func (w *worker) cancel(ctx context.Context, name string) error {
	within, cancel := context.WithTimeout(ctx, time.Duration(w.random.IntN(3000))*time.Microsecond)
	defer cancel()
	lease, err := w.client.TryAcquire(within, name)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// lose is a holder that was paused for longer than its TTL.
func (w *worker) lose(ctx context.Context, name string) error {
	lease, err := w.client.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	_, err = w.pool.Exec(ctx, quoted(w.run.options.Schema, `
		UPDATE %s.pglock_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE name = $1 AND token = $2`), name, int64(lease.Token()))
	if err == nil {
		select {
		case <-lease.Context().Done():
		case <-ctx.Done():
		}
		err = w.write(ctx, lease)
	}
	return errors.Join(err, lease.Release(ctx))
}

// beginAnew ends the client, and the next operation makes another: now and then, as processes do.
func (w *worker) beginAnew(context.Context, string) error {
	if w.random.IntN(4) > 0 {
		return nil
	}
	return w.end()
}

// write passes the fence and writes, in one transaction.
func (w *worker) write(ctx context.Context, lease *pglock.Lease) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := lease.AdvanceTx(ctx, tx); err != nil {
			return err
		}
		return w.insert(lease)(ctx, tx)
	})
}

// insert writes the row of the name. A token that is lower than what is there has passed the fence wrongly.
func (w *worker) insert(lease *pglock.Lease) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, quoted(w.run.options.Schema, `
			INSERT INTO %s.soak_written AS w (name, token) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token WHERE w.token <= EXCLUDED.token`), lease.Name(), int64(lease.Token()))
		if err == nil && tag.RowsAffected() == 0 {
			w.run.stalePassed.Add(1)
		}
		return err
	}
}
