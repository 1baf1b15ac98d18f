// Invoicejob tells how a nightly invoice job runs on one of several instances only.
//
// It starts a PostgreSQL server of its own, or uses that of DATABASE_URL, loads orders, and starts two processes that want to
// run the same job. One gets the lease and a fencing token, the other is told who holds it and skips the run. In mid-job the
// holder is frozen past its lease; the other takes over with a higher token; the frozen one wakes up, goes on to write, and
// is refused by the fence.
//
//	go run ./examples/invoicejob
//	go run ./examples/invoicejob -orders orders.csv -lines order-details.csv -json
//
// What is worth copying is in instance.go and invoices.go. The rest is the stage: story.go (timer and misfortunes),
// process.go, orders.go and money.go (CSV), database.go, report.go, summary.go.
//
// All tables, those of the locks too, are in the schema invoicejob, or that of -schema; nothing else in the database is
// touched. They stay there: a second run finds nothing to invoice. To remove them: DROP SCHEMA invoicejob CASCADE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

func main() {
	runtime.LockOSThread() // Its thread lives as long as the process: see startProcess.
	if len(os.Args) > 1 && os.Args[1] == hiddenMode {
		exit(os.Args[len(os.Args)-1], runInstance(os.Stdin, os.Stdout))
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		os.Exit(2)
	}
	ctx, interrupt, stop := interruptible()
	out := os.Stdout
	if o.json {
		out = os.Stderr
	}
	err = run(ctx, o, newReport(out, func() { interrupt(syscall.SIGPIPE) }))
	stop()
	exit("invoicejob", err)
}

// exit ends the program: 0, 1 for an error, or 128 and the signal's number as a shell has it.
func exit(who string, err error) {
	var stopped interruption
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &stopped):
		fmt.Fprintf(os.Stderr, "%s: stopped (%v)\n", who, stopped.signal)
		os.Exit(128 + int(stopped.signal))
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", who, err)
	os.Exit(1)
}

// run tells the whole story.
func run(ctx context.Context, o options, r *report) (err error) {
	defer func() {
		if ctx.Err() != nil && err != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
	}()
	r.print("The nightly invoice job: one instance runs it, the fence keeps a stale one out.", "")
	orders, source, err := o.read()
	if err != nil {
		return err
	}
	lines := 0
	for _, o := range orders {
		lines += len(o.Lines)
	}
	r.say("orders", "%s with %s: %s", count(len(orders), "order"), count(lines, "line"), source)

	if dsn := os.Getenv("DATABASE_URL"); dsn != "" {
		// The first to read it is package migrations, whose errors show nothing of a connection string. Those of its parser may: of a
		// password with a blank, say, that was not quoted.
		if _, err := migrations.Version(ctx, migrations.URL(dsn), migrations.Options{Schema: o.schema}); err != nil {
			return err
		}
	}
	r.say("postgres", "looking for a server, or starting one")
	server, err := pgserver.Start(ctx, pgserver.Options{
		Progress: func(message string) { r.say("postgres", "%s", message) },
	})
	if err != nil {
		return err
	}
	defer func() {
		if failed := server.Close(); failed != nil {
			r.say("postgres", "could not be ended: %v", failed)
			err = errors.Join(err, failed)
		}
	}()
	r.say("postgres", "%s", server.Source())
	db, err := openDatabase(ctx, server.DSN(), o.schema)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	if _, err := pglock.New(db.pool, lockConfig(setup{TTL: o.ttl, Renew: o.renew, Schema: o.schema})); err != nil {
		return err // Better here than from each instance.
	}
	if err := db.install(ctx); err != nil {
		return err
	}
	if err := db.load(ctx, source, orders); err != nil {
		return err
	}
	return tell(ctx, o, r, db, server.DSN(), orders)
}

// tell runs the job on orders that are loaded.
func tell(ctx context.Context, o options, r *report, db *database, dsn string, orders []order) error {
	before, err := db.tally(ctx, orders)
	if err != nil {
		return err
	}
	s := &story{options: o, report: r, db: db, dsn: dsn}
	if s.open, s.all, err = db.open(ctx); err != nil {
		return err
	}
	s.chance()
	s.effort = effort(s.open, o.batch)
	r.say("schema", "%q has the tables; %s to invoice", o.schema, count(s.open, "order"))
	r.say("lease", "TTL %v, renewed every %v%s", o.ttl, o.renew, o.shortened())
	if err := s.play(ctx); err != nil {
		return err
	}
	result, err := s.summarize(ctx, orders)
	if err != nil {
		return err
	}
	if err := s.print(ctx, result, before.Invoices); err != nil {
		return err
	}
	if o.json {
		return result.writeJSON(os.Stdout)
	}
	return nil
}

// effort is the time that a batch takes: so much that there is something to watch, and not more than some seconds in all.
func effort(open, batch int) time.Duration {
	batches := (open + batch - 1) / batch
	return min(250*time.Millisecond, 5*time.Second/time.Duration(max(batches, 1)))
}
