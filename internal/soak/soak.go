package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// Options of [Run].
type Options struct {
	DSN      string        // of a superuser: sessions are ended
	Schema   string        // with the tables in it, and nobody else
	Duration time.Duration // of the load
	Workers  int           // each a client with a pool of its own. Default: 6
	Seed     uint64        // of the workers' decisions
	Settle   time.Duration // how long what ends with the load may take to be gone. Default: 20 s

	// Leak is called twenty times a second, for a test of the judgement itself. Default: nil.
	Leak func(ctx context.Context)
}

// A run is one under way.
type run struct {
	options     Options
	operations  atomic.Int64
	stalePassed atomic.Int64

	mu     sync.Mutex
	counts map[string]int
	other  error // the last error that is not accounted for
	pools  map[*pgxpool.Pool]struct{}
}

// Run keeps workers busy and judges what was seen. An error says that it could not; what grew is in the report.
func Run(ctx context.Context, options Options) (*Report, error) {
	if options.Workers == 0 {
		options.Workers = 6
	}
	if options.Settle == 0 {
		options.Settle = 20 * time.Second
	}
	r := &run{options: options, counts: map[string]int{}, pools: map[*pgxpool.Pool]struct{}{}}
	admin, err := r.open(ctx, "leasehold soak admin")
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	// A session that lives as long as the run: what it prepares is never thrown away by its end.
	old, err := r.open(ctx, "leasehold soak oldest")
	if err != nil {
		return nil, err
	}
	defer old.Close()
	if _, err := admin.Exec(ctx, quoted(options.Schema, "CREATE TABLE %s.soak_written (name text PRIMARY KEY, token bigint NOT NULL) WITH (fillfactor = 50)")); err != nil {
		return nil, err
	}
	report := &Report{Options: options, Started: time.Now()}
	if err := admin.QueryRow(ctx, "SHOW server_version").Scan(&report.Server); err != nil {
		return nil, err
	}
	s := &sampler{admin: admin, schema: options.Schema, start: time.Now()}
	before, err := s.sample(ctx)
	if err != nil {
		return nil, err
	}
	if report.Samples, err = r.load(ctx, s, old); err != nil {
		return nil, err
	}
	if report.Findings, err = Judge(report.Samples); err != nil {
		return nil, err
	}
	report.Counts, report.Other, report.StalePassed = r.counts, r.other, r.stalePassed.Load()
	report.Left, err = left(ctx, s, before, options.Settle)
	return report, err
}

// open is a pool of one connection.
func (r *run) open(ctx context.Context, name string) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(r.options.DSN)
	if err != nil {
		return nil, err
	}
	settings.MinConns, settings.MaxConns = 1, 1
	settings.MaxConnLifetime, settings.MaxConnIdleTime = 365*24*time.Hour, 365*24*time.Hour
	settings.ConnConfig.RuntimeParams["application_name"] = name
	return pgxpool.NewWithConfig(ctx, settings)
}

// load runs the workers and takes the samples. When it returns, all of the load has ended.
func (r *run) load(ctx context.Context, s *sampler, old *pgxpool.Pool) (samples []Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Duration)
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	run := func(f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				failed.CompareAndSwap(nil, &err)
				cancel()
			}
		})
	}
	defer func() {
		cancel()
		group.Wait()
		if first := failed.Load(); err == nil && first != nil {
			err = *first
		}
	}()
	for i := range r.options.Workers {
		w := &worker{run: r, random: rand.New(rand.NewPCG(r.options.Seed, uint64(i)))}
		run(w.work)
	}
	run(func(ctx context.Context) error { return r.disturb(ctx, s.admin) })
	run(func(ctx context.Context) error { return r.keep(ctx, old) })
	if r.options.Leak != nil {
		run(func(ctx context.Context) error {
			return every(ctx, 50*time.Millisecond, func() error { r.options.Leak(ctx); return nil })
		})
	}
	interval := min(max(r.options.Duration/60, 50*time.Millisecond), 15*time.Second)
	err = every(ctx, interval, func() error {
		seen, err := s.sample(ctx)
		if err != nil {
			return err
		}
		if err := old.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_statements").Scan(&seen.Prepared); err != nil {
			return err
		}
		seen.Operations, seen.Pooled = r.operations.Load(), r.pooled()
		samples = append(samples, seen)
		return nil
	})
	return samples, err
}

// every calls f again and again until ctx ends.
func every(ctx context.Context, interval time.Duration, f func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := f(); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// disturb ends a session of a client, ten times a minute or in each sixth of a short run.
func (r *run) disturb(ctx context.Context, admin *pgxpool.Pool) error {
	return every(ctx, min(6*time.Second, r.options.Duration/6), func() error {
		_, err := admin.Exec(ctx, `
			SELECT pg_terminate_backend(pid) FROM (
				SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY random() LIMIT 1
			) AS one`, application)
		return err
	})
}

// keep has one client that lives as long as the run, on the session that does.
func (r *run) keep(ctx context.Context, pool *pgxpool.Pool) error {
	c := config
	c.Schema, c.OnEvent = r.options.Schema, r.event
	client, err := pglock.New(pool, c)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	return every(ctx, 50*time.Millisecond, func() error {
		err := client.TryDo(ctx, "kept", func(ctx context.Context, lease *pglock.Lease) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return lease.AdvanceTx(ctx, tx) })
		})
		r.count("keep", err)
		return nil
	})
}

// count notes how an operation ended.
func (r *run) count(operation string, err error) {
	r.operations.Add(1)
	outcome := outcomeOf(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[operation+": "+outcome]++
	if outcome == otherOutcome {
		r.other = fmt.Errorf("%s: %w", operation, err)
	}
}

// otherOutcome is what is not accounted for.
const otherOutcome = "another error"

// outcomeOf sorts errors. Sessions are ended and attempts cut off on purpose.
func outcomeOf(err error) string {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, fencing.ErrStale):
		return "refused by the fence"
	case errors.Is(err, pglock.ErrLost):
		return "lost"
	case errors.Is(err, pglock.ErrNotAcquired):
		return "not acquired"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "cut off"
	case errors.As(err, &pg) && pg.Code == "57P01", errors.As(err, &connect), !errors.As(err, &pg) && pgconn.SafeToRetry(err):
		return "session ended"
	}
	return otherOutcome
}

// event counts what clients tell.
func (r *run) event(e pglock.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["event: "+string(e.Kind)]++
}

func (r *run) join(pool *pgxpool.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools[pool] = struct{}{}
}

func (r *run) leave(pool *pgxpool.Pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// pooled counts the connections of all pools.
func (r *run) pooled() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pool := range r.pools {
		n += int(pool.Stat().TotalConns())
	}
	return n
}

// left looks for what should be gone now that the load has ended, and says what is not.
func left(ctx context.Context, s *sampler, before Sample, settle time.Duration) (left []string, err error) {
	for deadline := time.Now().Add(settle); ; {
		after, err := s.sample(ctx)
		if err != nil {
			return nil, err
		}
		left = left[:0]
		// The pool of the oldest session is still there, with one connection and what belongs to it.
		for _, what := range []struct {
			name        string
			now, atMost int
		}{
			{"goroutines", after.Goroutines, before.Goroutines + 5},
			{"file descriptors", after.Files, before.Files + 2},
			{"sessions of clients", after.Sessions, 0},
			{"advisory locks", after.IdleLocks, 0},
		} {
			if what.now > what.atMost {
				left = append(left, fmt.Sprintf("%d %s, at most %d", what.now, what.name, what.atMost))
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
