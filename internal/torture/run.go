package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/pglock"
)

// A Report is what a run did.
type Report struct {
	Seed   uint64
	Events []history.Event
	Counts map[string]int
	// Stuck are the names that could not be acquired after the last fault, and why.
	Stuck []string
	// Strange are errors of the server that no fault accounts for.
	Strange []string
}

type run struct {
	options Options
	log     *log
	clients []*client
}

// pauses bound how long it is quiet between two faults.
type pauses struct{ low, high time.Duration }

// Run does random operations and faults for a while, sees to it that every name can be acquired afterwards, and returns
// what happened. It returns when all that it started has ended. An error says that it could not be done, not what it found.
func Run(ctx context.Context, options Options) (*Report, error) {
	r := &run{options: options.withDefaults(), log: newLog()}
	if err := record(ctx, r.options.DSN, r.options.Schema); err != nil {
		return nil, err
	}
	sampling, stop := context.WithCancel(ctx)
	var clock sync.WaitGroup
	clock.Go(func() { r.log.sampleClock(sampling, r.options.DSN) })
	err := r.work(ctx)
	var stuck []string
	if err == nil {
		stuck, err = r.lastWord(ctx)
	}
	stop()
	clock.Wait()
	if err != nil {
		return nil, err
	}
	return r.report(ctx, stuck)
}

// work has clients and faults do their work for the duration.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Duration)
	defer cancel()
	for i := range r.options.Clients {
		r.clients = append(r.clients, newClient(r, i+1))
	}
	var errs []error
	var mu sync.Mutex
	failed := func(err error) {
		if err != nil {
			cancel()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	var workers, watchers sync.WaitGroup
	for _, c := range r.clients {
		workers.Go(func() { failed(c.work(ctx)) })
		watchers.Go(func() { c.watch(watching) })
	}
	for _, n := range []struct {
		where  place
		number int // of nemeses at work at once
		quiet  pauses
	}{
		{network, 2, pauses{20 * time.Millisecond, 200 * time.Millisecond}},
		{session, 1, pauses{100 * time.Millisecond, 600 * time.Millisecond}},
		{server, 1, pauses{600 * time.Millisecond, 1800 * time.Millisecond}},
	} {
		if n.where == server && r.options.Server == nil {
			continue
		}
		for i := range n.number {
			workers.Go(func() { failed(newNemesis(r, n.where, i+1).work(ctx, n.quiet)) })
		}
	}
	if r.options.Enough != nil {
		workers.Go(func() { r.untilEnough(ctx, cancel) })
	}
	workers.Wait()
	unwatch()
	watchers.Wait()
	return errors.Join(errs...)
}

// untilEnough ends the run when the options say so.
func (r *run) untilEnough(ctx context.Context, end func()) {
	for sleep(ctx, time.Second) {
		report, err := r.report(ctx, nil)
		if err == nil && r.options.Enough(report) { // An error: the server is away. Again later.
			end()
			return
		}
	}
}

// lastWord acquires each name once more, on an unbroken network. What is left of the run may be in the way for a TTL, and an
// open transaction of a client that was cut off until the server ends it.
func (r *run) lastWord(ctx context.Context) (stuck []string, err error) {
	config, err := pgxpool.ParseConfig(r.options.DSN)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "last"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer pool.Close()
	locks, err := pglock.New(pool, pglock.Config{Schema: r.options.Schema, Label: "last"})
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { err = errors.Join(err, locks.Close(context.WithoutCancel(ctx))) }()
	for _, name := range r.options.Names {
		// TTL, the server's idle_in_transaction_session_timeout of the clients, and room for a busy machine.
		asking, cancel := context.WithTimeout(ctx, r.options.MaxTTL+time.Second+10*time.Second)
		lease, err := locks.Acquire(asking, name)
		cancel()
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("%q: %v", name, err))
			continue
		}
		if err := lease.Release(ctx); err != nil {
			stuck = append(stuck, fmt.Sprintf("%q: %v", name, err))
		}
	}
	return stuck, nil
}

// report puts together what was noted and what the database recorded.
func (r *run) report(ctx context.Context, stuck []string) (*Report, error) {
	events, counts, strange := r.log.taken()
	var database []history.Event
	var err error
	for range 3 { // A server that was just restarted may not be ready for us at once.
		if database, err = recorded(ctx, r.options.DSN, r.options.Schema); err == nil {
			break
		}
		if !sleep(ctx, 200*time.Millisecond) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, e := range database {
		switch {
		case e.Kind == history.KindLease && e.New != nil && e.New.Expires != nil && (e.Old == nil || e.Old.Token != e.New.Token):
			counts["granted in the database"]++
			if e.Old != nil && e.Old.Expires != nil {
				counts["taken over"]++
			}
		case e.Kind == history.KindLease && e.New != nil && e.New.Expires != nil:
			counts["renewals"]++
		case e.Kind == history.KindWrite:
			counts["writes committed"]++
		}
	}
	return &Report{Seed: r.options.Seed, Events: append(database, events...), Counts: counts, Stuck: stuck, Strange: strange}, nil
}
