package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

// costs are what one cycle costs the servers, whatever else the machine does.
type costs struct {
	transactions float64 // of PostgreSQL, implicit ones included: a statement that is sent to be parsed first is two
	flushes      float64 // of its write-ahead log
	wal          float64 // bytes
	commands     float64 // of Redis, all nodes together, those of scripts included
}

func (c costs) minus(o costs) costs {
	return costs{c.transactions - o.transactions, c.flushes - o.flushes, c.wal - o.wal, c.commands - o.commands}
}

func (c costs) over(n float64) costs {
	return costs{c.transactions / n, c.flushes / n, c.wal / n, c.commands / n}
}

// A scale weighs peers on servers on which nothing else happens, autovacuum included.
type scale struct {
	ground *ground
	server *pgserver.Server
	conn   *pgx.Conn // to another database, so that its own transactions do not count
	name   string    // of the peers' database
}

func openScale(ctx context.Context, memory, onDisk []*stage.Node) (*scale, error) {
	server, err := pgserver.Start(ctx, pgserver.Options{Private: true, Durable: true, Settings: map[string]string{
		"autovacuum":       "off",
		"wal_writer_delay": "10s", // what is committed asynchronously is flushed with the next grant, however slow the machine is
		"max_connections":  "300",
	}})
	if err != nil {
		return nil, err
	}
	s := &scale{server: server, ground: &ground{server.DSN(), memory, onDisk}}
	config, err := pgx.ParseConfig(server.DSN())
	if err == nil {
		s.name = config.Database
		config.Database = "template1"
		s.conn, err = pgx.ConnectConfig(ctx, config)
	}
	if err == nil {
		err = migrations.Up(ctx, migrations.URL(server.DSN()), migrations.Options{})
	}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *scale) close(ctx context.Context) error {
	if s.conn != nil {
		_ = s.conn.Close(ctx)
	}
	return s.server.Close()
}

// weigh returns what one cycle costs: a sixth of the cycles are made once more beforehand, and the difference of the two
// leaves out what opening and closing cost.
func (s *scale) weigh(ctx context.Context, open opener, cycles int) (name string, each costs, err error) {
	var sums [2]costs
	few := cycles / 6
	for i, cycles := range []int{few, cycles} {
		before, err := s.read(ctx)
		if err != nil {
			return "", costs{}, err
		}
		p, err := open(ctx, s.ground)
		if err != nil {
			return "", costs{}, err
		}
		name = p.name
		for range cycles {
			if err = p.cycle(ctx, 0); err != nil {
				break
			}
		}
		p.close()
		if err != nil {
			return name, costs{}, fmt.Errorf("%s: %w", name, err)
		}
		after, err := s.read(ctx)
		if err != nil {
			return name, costs{}, err
		}
		sums[i] = after.minus(before)
	}
	return name, sums[1].minus(sums[0]).over(float64(cycles - few)), nil
}

// alone waits until all sessions have ended and handed in what they have counted.
func (s *scale) alone(ctx context.Context) error {
	for {
		var others int
		err := s.conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", s.name).Scan(&others)
		if err != nil || others == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// read reads the counters of all servers when nobody counts.
func (s *scale) read(ctx context.Context) (c costs, err error) {
	if err := s.alone(ctx); err != nil {
		return c, err
	}
	flushes := "SELECT wal_sync FROM pg_stat_wal"
	if s.conn.PgConn().ParameterStatus("server_version") >= "18" {
		flushes = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
	}
	err = s.conn.QueryRow(ctx, `
SELECT xact_commit + xact_rollback, (`+flushes+`)::float8, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8
FROM pg_stat_database WHERE datname = $1`, s.name).Scan(&c.transactions, &c.flushes, &c.wal)
	if err != nil {
		return c, err
	}
	for _, n := range append(append([]*stage.Node{}, s.ground.memory...), s.ground.onDisk...) {
		commands, err := commandsOf(ctx, n)
		if err != nil {
			return c, err
		}
		c.commands += commands
	}
	return c, nil
}

func commandsOf(ctx context.Context, n *stage.Node) (float64, error) {
	client := connect(n)
	defer client.Close()
	text, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(text, "total_commands_processed:")
	number, _, _ := strings.Cut(after, "\r\n")
	return strconv.ParseFloat(number, 64)
}

// writeCosts weighs all peers and prints a table in Markdown.
func writeCosts(ctx context.Context, out io.Writer, s *scale) error {
	fmt.Fprint(out, "What one cycle costs the servers:\n\n",
		"| | transactions | WAL flushes | WAL bytes | Redis commands |\n|---|---|---|---|---|\n")
	for _, open := range openers() {
		name, c, err := s.weigh(ctx, open, 600)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.0f | %.1f |\n", name, c.transactions, c.flushes, c.wal, c.commands)
	}
	fmt.Fprintln(out)
	return nil
}
