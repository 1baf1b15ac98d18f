// Peers measures a grant and a release of an uncontended lock side by side: the floor, this library, and others, in one
// interleaved run. It prints medians of the rates, and medians of the ratios to the floor that was measured in the same round.
//
//	go run ./peers
//	go run ./peers -rounds 9 -time 2s
//
// It starts a PostgreSQL server, with fsync, and Redis servers of its own. docs/peers-measured.md says what is compared, and
// what is not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

func main() {
	rounds := flag.Int("rounds", 7, "interleaved rounds")
	weigh := flag.Bool("costs", true, "first count what a cycle costs the servers")
	each := flag.Duration("time", time.Second, "time for each peer and number of clients in a round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *weigh, *rounds, *each)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, weigh bool, rounds int, each time.Duration) (err error) {
	on, err := stage.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	g := &ground{}
	defer func() {
		for _, n := range append(g.memory, g.onDisk...) {
			n.Kill()
		}
	}()
	if g.memory, err = on.StartNodes(ctx, "memory", stage.InMemory()); err != nil {
		return err
	}
	if g.onDisk, err = on.StartNodes(ctx, "disk", stage.OnDisk()); err != nil {
		return err
	}
	if weigh {
		scale, err := openScale(ctx, g.memory, g.onDisk)
		if err != nil {
			return err
		}
		if err := errors.Join(writeCosts(ctx, out, scale), scale.close(ctx)); err != nil {
			return err
		}
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		Private: true, Durable: true, Settings: map[string]string{"max_connections": "300"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	g.dsn = server.DSN()
	if err := migrations.Up(ctx, migrations.URL(g.dsn), migrations.Options{}); err != nil {
		return err
	}
	peers, err := g.open(ctx)
	defer func() {
		for _, p := range peers {
			p.close()
		}
	}()
	if err != nil {
		return err
	}
	results, err := measure(ctx, peers, rounds, each)
	if err != nil {
		return err
	}
	results.write(out, peers)
	return nil
}
