package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// ErrNoServer says that there is no PostgreSQL server whose processes can be frozen.
var ErrNoServer = errors.New("control: a PostgreSQL server is needed whose processes are in /proc of this machine")

// Options of [Run].
type Options struct {
	// Program is a program that calls RunWorker when EnvWorker is in its environment.
	Program string
	// Rounds of each regime and fault. Default: 1.
	Rounds int
	// TTL of the locks in rounds with a pause, which lasts a bit longer. Default: 3 s.
	TTL time.Duration
	// RestartTTL is that of rounds in which a lock node restarts: the holder works for half of it. Default: 8 s.
	RestartTTL time.Duration
	// Each gets each round when it is over. Default: nobody.
	Each func(Round)
}

// Run runs all regimes side by side, each with all faults in turn, on servers of its own, and returns what happened.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.Rounds = max(o.Rounds, 1)
	if o.TTL == 0 {
		o.TTL = 3 * time.Second
	}
	if o.RestartTTL == 0 {
		o.RestartTTL = 8 * time.Second
	}
	r := &run{options: o, report: &Report{}}
	err := r.open(ctx)
	if err == nil {
		err = r.all(ctx)
	}
	return r.report, errors.Join(err, r.close())
}

// A run has what all cells share.
type run struct {
	options Options
	stage   *stage.Stage
	ledger  *database

	mu     sync.Mutex
	report *Report
	nodes  []*stage.Node // all that were started
}

// A database is a server with the tables of leases and of the ledger.
type database struct {
	server *pgserver.Server
	pool   *pgxpool.Pool // the controller's own
}

func openDatabase(ctx context.Context, options pgserver.Options) (*database, error) {
	options.Private = true
	server, err := pgserver.Start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	d := &database{server: server}
	err = migrations.Up(ctx, migrations.URL(server.DSN()), migrations.Options{})
	if err == nil {
		d.pool, err = pgxpool.New(ctx, server.DSN())
	}
	if err == nil {
		_, err = d.pool.Exec(ctx, tables)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *database) close() error {
	if d.pool != nil {
		d.pool.Close()
	}
	return d.server.Close()
}

func (r *run) open(ctx context.Context) (err error) {
	if r.stage, err = stage.Open(); err != nil {
		return err
	}
	// Two processes a cell, with three connections and that of the renewals.
	r.ledger, err = openDatabase(ctx, pgserver.Options{Settings: map[string]string{"max_connections": "200"}})
	return err
}

func (r *run) close() error {
	for _, n := range r.nodes {
		n.Kill()
	}
	var errs []error
	if r.ledger != nil {
		errs = append(errs, r.ledger.close())
	}
	if r.stage != nil {
		errs = append(errs, r.stage.Close())
	}
	return errors.Join(errs...)
}

// all runs the cells side by side: they mostly wait. The first that fails ends the others.
func (r *run) all(ctx context.Context) error {
	var backend int
	if err := r.ledger.pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return err
	}
	if !isPostgres(backend) {
		return ErrNoServer
	}
	shared, err := r.startNodes(ctx, "shared", stage.InMemory())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	start := func(work func() error) {
		group.Go(func() {
			if err := work(); err != nil {
				cancel(err)
			}
		})
	}
	for _, regime := range Regimes() {
		start(func() error { return r.pauses(ctx, regime, shared) })
	}
	for _, regime := range RestartRegimes() {
		for _, fault := range []Fault{RestartAtOnce, RestartLater, RestartDurable} {
			start(func() error { return r.restarts(ctx, regime, fault) })
		}
	}
	start(func() error { return r.databaseRestarts(ctx) })
	group.Wait()
	return context.Cause(ctx)
}

func (r *run) startNodes(ctx context.Context, name string, settings []string) ([]*stage.Node, error) {
	nodes, err := r.stage.StartNodes(ctx, name, settings)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, nodes...)
	return nodes, err
}

// pauses is a regime with a pause at each step.
func (r *run) pauses(ctx context.Context, regime Regime, nodes []*stage.Node) error {
	c, err := r.openCell(ctx, r.ledger, regime, regime.Name, nodes, r.options.TTL)
	if err != nil {
		return err
	}
	defer c.close()
	number := 0
	for range r.options.Rounds {
		for _, step := range Steps() {
			number++
			round, err := c.pause(ctx, number, step, r.options.TTL)
			if err := r.note(round, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// restarts is a regime with nodes of its own, one of which restarts in each round.
func (r *run) restarts(ctx context.Context, regime Regime, fault Fault) error {
	settings := stage.InMemory()
	if fault == RestartDurable {
		settings = stage.OnDisk()
	}
	name := regime.Name + ", " + string(fault)
	nodes, err := r.startNodes(ctx, name, settings)
	if err != nil {
		return err
	}
	c, err := r.openCell(ctx, r.ledger, regime, name, nodes, r.options.RestartTTL)
	if err != nil {
		return err
	}
	defer c.close()
	for number := range r.options.Rounds {
		round, err := c.restart(ctx, number, fault, nodes, r.options.RestartTTL)
		if err := r.note(round, err); err != nil {
			return err
		}
	}
	return nil
}

// databaseRestarts is a server of its own that restarts in each round. It flushes to the disk, as the nodes that keep
// something do.
func (r *run) databaseRestarts(ctx context.Context) (err error) {
	d, err := openDatabase(ctx, pgserver.Options{Durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, regime := range DatabaseRegimes() {
		c, err := r.openCell(ctx, d, regime, regime.Name, nil, r.options.RestartTTL)
		if err != nil {
			return err
		}
		defer c.close()
		for number := range r.options.Rounds {
			round, err := c.restartDatabase(ctx, number, d.server, r.options.RestartTTL)
			if err := r.note(round, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) note(round Round, err error) error {
	if err != nil {
		return fmt.Errorf("%s, %s, round %d: %w", round.Regime, round.Fault, round.Number, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Rounds = append(r.report.Rounds, round)
	if r.options.Each != nil {
		r.options.Each(round)
	}
	return nil
}

// openCell starts two workers.
func (r *run) openCell(
	ctx context.Context, d *database, regime Regime, name string, nodes []*stage.Node, ttl time.Duration,
) (*cell, error) {
	if err := openAccount(ctx, d.pool, name); err != nil {
		return nil, err
	}
	c := &cell{pool: d.pool, regime: regime, name: name}
	setup := Setup{DSN: d.server.DSN(), Regime: regime, Nodes: stage.Sockets(nodes), Name: name, TTL: ttl}
	for label, p := range map[string]**process{"a": &c.a, "b": &c.b} {
		setup.Label = label
		var err error
		if *p, err = startProcess(ctx, r.stage, r.options.Program, setup); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *cell) close() {
	for _, p := range []*process{c.a, c.b} {
		if p != nil {
			p.end()
		}
	}
}
