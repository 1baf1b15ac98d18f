package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/pglock"
)

// How many leases that are over a client remembers for each name, to write under them.
const memory = 3

// A client does random operations, one after the other, in several lives: each with a label, a proxy, a pool and a
// pglock.Client of its own.
type client struct {
	options *Options
	log     *log
	number  int
	plan    plan
	lives   int
	writes  atomic.Int64
	burials sync.WaitGroup // ends of earlier lives

	// Of the present life; for the client's goroutine alone.
	label string
	ttl   time.Duration
	pool  *pgxpool.Pool
	locks *pglock.Client

	mu     sync.Mutex
	leases map[string]term   // held, by name
	over   map[string][]term // lost, released or of an earlier life, the latest last
	loose  []term            // abandoned, and still renewed

	wire  sync.Mutex      // held while the proxy's mode is changed, too
	proxy *faultnet.Proxy // of the present life; nil at its end
}

// A term is a lease and the label of the life that it was granted to.
type term struct {
	*pglock.Lease
	label string
}

// event is an event about the term.
func (t term) event(kind history.Kind, text string) history.Event {
	return history.Event{Kind: kind, Client: t.label, Name: t.Name(), Token: int64(t.Token()), Text: text}
}

func newClient(r *run, number int) *client {
	return &client{
		options: &r.options,
		log:     r.log,
		number:  number,
		plan:    plan{seed: r.options.Seed, who: fmt.Sprintf("client %d", number)},
		leases:  map[string]term{},
		over:    map[string][]term{},
	}
}

// work does operations until ctx ends, and closes the client.
func (c *client) work(ctx context.Context) error {
	d := c.plan.next()
	if err := c.live(ctx, d); err != nil {
		return err
	}
	weights := opWeights(*c.options)
	for ctx.Err() == nil {
		d := c.plan.next()
		o := ops[d.weighted(weights)]
		name := one(d, c.options.Names)
		c.log.count("ops")
		c.log.count("op " + o.name)
		started := time.Now()
		o.do(ctx, c, d, name)
		if time.Since(started) < time.Millisecond { // It did nothing: no storm.
			sleep(ctx, d.between(time.Millisecond, 20*time.Millisecond))
		}
	}
	c.bury("closed")
	c.burials.Wait()
	return nil
}

// live begins a life.
func (c *client) live(ctx context.Context, d dice) error {
	ttl := d.between(c.options.MinTTL, c.options.MaxTTL)
	proxy, dsn := c.options.Proxy(c.options.DSN)
	c.lives++
	label := fmt.Sprintf("c%d.%d", c.number, c.lives)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	config.MaxConns = 4
	config.ConnConfig.RuntimeParams["application_name"] = label
	// A client that is cut off in mid-transaction must not keep the fence for ever: what docs ask of users, too.
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "1000"
	habits(config.ConnConfig, d, ttl)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	locks, err := pglock.New(pool, pglock.Config{
		Schema:         c.options.Schema,
		Label:          label,
		TTL:            ttl,
		RenewInterval:  ttl / 4,
		RequestTimeout: ttl / 3,
		Margin:         ttl / 10,
		PollInterval:   100 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	c.label, c.ttl, c.pool, c.locks = label, ttl, pool, locks
	c.wire.Lock()
	c.proxy = proxy
	c.wire.Unlock()
	for c.options.Prepare != nil && ctx.Err() == nil && c.options.Prepare(ctx, locks) != nil {
		sleep(ctx, 20*time.Millisecond)
	}
	return nil
}

// habits are what differs between databases and programs that the library must live with.
func habits(config *pgx.ConnConfig, d dice, ttl time.Duration) {
	config.DefaultQueryExecMode = one(d, []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	})
	config.RuntimeParams["default_transaction_isolation"] = one(d, []string{
		"read committed", "read committed", "read committed", "repeatable read", "serializable",
	})
	if d.IntN(3) == 0 {
		config.RuntimeParams["statement_timeout"] = fmt.Sprint(ttl.Milliseconds() / 3)
		config.RuntimeParams["lock_timeout"] = fmt.Sprint(ttl.Milliseconds() / 6)
	}
}

// die ends a life and begins the next.
func (c *client) die(ctx context.Context, d dice, how string) {
	c.bury(how)
	if err := c.live(ctx, d); err != nil {
		panic(err) // The first life began with the same settings.
	}
}

// bury ends the present life: crashed, with nothing getting through any more, or closed. What takes time goes on in the
// background, as the rest of the machine does when a process dies.
func (c *client) bury(how string) {
	from := c.log.now()
	c.wire.Lock()
	proxy := c.proxy
	c.proxy = nil // From here on no fault heals it.
	c.wire.Unlock()
	if how == "crashed" {
		proxy.Set(faultnet.Refuse())
		proxy.Reset()
	}
	c.mu.Lock()
	ended := append(slices.Collect(maps.Values(c.leases)), c.loose...)
	c.leases, c.loose = map[string]term{}, nil
	c.mu.Unlock()
	pool, locks := c.pool, c.locks
	c.burials.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			c.log.count("closes incomplete")
			c.log.strange("close", err)
		}
		for _, l := range ended {
			c.log.note(from, l.event(history.KindEnded, how))
		}
		proxy.Reset() // A connection that swallows bytes would keep the pool waiting.
		pool.Close()
		proxy.Close()
	})
	for _, l := range ended {
		c.former(l)
	}
}

// answered takes what an acquire returned.
func (c *client) answered(lease *pglock.Lease, err error) {
	switch {
	case err == nil:
		l := term{lease, c.label}
		from := c.log.now()
		granted := l.event(history.KindGranted, "")
		granted.Left = lease.TimeLeft().Microseconds()
		c.log.note(from, granted)
		c.log.count("grants")
		c.mu.Lock()
		before, found := c.leases[lease.Name()]
		c.leases[lease.Name()] = l
		c.mu.Unlock()
		if found { // Lost, and the watch has not looked since.
			c.end(before)
		}
	case errors.Is(err, pglock.ErrNotAcquired):
		c.log.count("not acquired")
	default:
		c.log.count("acquires failed")
		c.log.strange("acquire", err)
	}
}

// held is the lease of a name, or else another that the client has, without a loss that it noticed.
func (c *client) held(d dice, name string) (term, bool) {
	n := d.IntN(len(c.options.Names))
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, found := c.leases[name]; found || len(c.leases) == 0 {
		return l, found
	}
	names := slices.Sorted(maps.Keys(c.leases))
	return c.leases[names[n%len(names)]], true
}

// forget keeps a lease that is renewed and not used.
func (c *client) forget(l term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loose = append(c.loose, l)
}

// former remembers a lease that is over.
func (c *client) former(l term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := append(c.over[l.Name()], l)
	c.over[l.Name()] = list[max(0, len(list)-memory):]
}

// oneFormer draws one of the leases that are over.
func (c *client) oneFormer(d dice, name string) (term, bool) {
	n := d.IntN(memory)
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.over[name]
	if len(list) == 0 {
		return term{}, false
	}
	return list[n%len(list)], true
}

// link is the proxy of the present life, nil between two.
func (c *client) link() *faultnet.Proxy {
	c.wire.Lock()
	defer c.wire.Unlock()
	return c.proxy
}

// set changes the mode of a proxy, if it is still that of the present life.
func (c *client) set(proxy *faultnet.Proxy, mode faultnet.Mode) {
	c.wire.Lock()
	defer c.wire.Unlock()
	if proxy != nil && c.proxy == proxy {
		proxy.Set(mode)
	}
}

func said(err error) string {
	if err == nil {
		return "confirmed"
	}
	return err.Error()
}
