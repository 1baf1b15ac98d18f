package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/notebook"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
	"github.com/leasehold-go/leasehold/pglock"
)

// How many leases that are over a client remembers for each name, to write under them.
const memory = 3

// A client does random operations, one after the other.
type client struct {
	setup  protocol.Setup
	book   *notebook.Notebook
	plan   plan.Plan
	ttl    time.Duration
	pool   *pgxpool.Pool
	locks  *pglock.Client
	writes atomic.Int64
	closes bool // the operation close was drawn

	mu     sync.Mutex
	freed  map[*pglock.Lease]bool     // by a call of Release
	leases map[string]*pglock.Lease   // held, by name
	over   map[string][]*pglock.Lease // lost or released, the latest last
	loose  []*pglock.Lease            // abandoned, and still renewed
}

// newClient makes the pool and the client of the library. The first operation connects.
func newClient(setup protocol.Setup, book *notebook.Notebook) (*client, error) {
	c := &client{
		setup:  setup,
		book:   book,
		plan:   plan.Plan{Seed: setup.Seed, Who: setup.Label},
		freed:  map[*pglock.Lease]bool{},
		leases: map[string]*pglock.Lease{},
		over:   map[string][]*pglock.Lease{},
	}
	d := c.plan.Next()
	c.ttl = d.Between(setup.MinTTL, setup.MaxTTL)
	config, err := pgxpool.ParseConfig(setup.DSN)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	config.MaxConns = 4
	// The pool goes on with an attempt to connect when nobody waits for it any more, by default for two minutes: after a
	// partition four of those would be in everybody's way.
	config.ConnConfig.ConnectTimeout = time.Second
	config.ConnConfig.RuntimeParams["application_name"] = setup.Label
	habits(config.ConnConfig, d, c.ttl, setup.Pooled)
	if c.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c.locks, err = pglock.New(c.pool, pglock.Config{
		Schema:         setup.Schema,
		Label:          setup.Label,
		TTL:            c.ttl,
		RenewInterval:  c.ttl / 4,
		RequestTimeout: c.ttl / 3,
		Margin:         c.margin(),
		PollInterval:   100 * time.Millisecond,
	})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// margin is how much earlier than it must the client ends its trust.
func (c *client) margin() time.Duration { return c.ttl / 10 }

// work does operations until ctx ends or one of them ends the life.
func (c *client) work(ctx context.Context) {
	weights := opWeights(c.setup.Favour)
	for ctx.Err() == nil && !c.closes {
		d := c.plan.Next()
		o := ops[d.Weighted(weights)]
		name := plan.One(d, c.setup.Names)
		c.book.Remark("%s%s", protocol.NoteOp, o.name)
		started := time.Now()
		o.do(ctx, c, d, name)
		if time.Since(started) < time.Millisecond { // It did nothing: no storm.
			sleep(ctx, d.Between(time.Millisecond, 20*time.Millisecond))
		}
	}
}

// close ends the life as a program that ends does.
func (c *client) close(ctx context.Context) {
	from := clock.Now()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := c.locks.Close(ctx); err != nil {
		c.count("closes incomplete")
		c.strange("close", err)
	}
	for _, l := range c.taken() {
		c.book.Note(from, event(l, history.KindEnded, "closed"))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.pool.Close()
	}()
	select {
	case <-closed:
	case <-ctx.Done(): // A connection that swallows bytes; the process ends all the same.
	}
}

// taken takes all leases that the client holds away from it.
func (c *client) taken() []*pglock.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(slices.Collect(maps.Values(c.leases)), c.loose...)
	c.leases, c.loose = map[string]*pglock.Lease{}, nil
	return all
}

// held is the lease of a name, or else another that the client has, without a loss that it noticed.
func (c *client) held(d plan.Dice, name string) (*pglock.Lease, bool) {
	n := d.IntN(len(c.setup.Names))
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, found := c.leases[name]; found || len(c.leases) == 0 {
		return l, found
	}
	names := slices.Sorted(maps.Keys(c.leases))
	return c.leases[names[n%len(names)]], true
}

// drop takes a lease out of those held. It is false if another goroutine was quicker.
func (c *client) drop(l *pglock.Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[l.Name()] == l {
		delete(c.leases, l.Name())
		return true
	}
	if i := slices.Index(c.loose, l); i >= 0 {
		c.loose = slices.Delete(c.loose, i, i+1)
		return true
	}
	return false
}

// former remembers a lease that is over.
func (c *client) former(l *pglock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := append(c.over[l.Name()], l)
	c.over[l.Name()] = list[max(0, len(list)-memory):]
}

// oneFormer draws one of the leases that are over.
func (c *client) oneFormer(d plan.Dice, name string) (*pglock.Lease, bool) {
	n := d.IntN(memory)
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.over[name]
	if len(list) == 0 {
		return nil, false
	}
	return list[n%len(list)], true
}

// count counts something for the report.
func (c *client) count(what string) { c.book.Remark("%s%s", protocol.NoteCount, what) }

// event is an event about a term.
func event(l *pglock.Lease, kind history.Kind, text string) history.Event {
	return history.Event{Kind: kind, Name: l.Name(), Token: int64(l.Token()), Text: text}
}

// sleep waits for d. It is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
