package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Options are the flags.
type options struct {
	orders, lines string
	json          bool
	instances     int
	ttl, renew    time.Duration
	given         bool // -ttl or -renew is
	batch         int
	freeze, kill  bool
	schema        string
}

// What the demonstration uses where nothing is given, so that nobody waits a minute for a lease to run out.
const (
	shortTTL   = 3 * time.Second
	shortRenew = time.Second
)

const usage = `Usage: go run ./examples/invoicejob [flags]

A nightly invoice job on several instances: one runs it, the others skip. The one that
runs it is frozen past its lease, another takes over, and the fence refuses the stale write.

It uses the server of DATABASE_URL, or else starts one of its own and removes it at the
end. All tables are in a schema of their own and stay there, so that a second run in
the same database finds nothing to invoice.

Flags:
`

func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("invoicejob", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.orders, "orders", "", "CSV `file` with orderID, customerID, orderDate (default: a sample of 60 orders)")
	flags.StringVar(&o.lines, "lines", "", "CSV `file` with orderID, productID, unitPrice, quantity, discount")
	flags.BoolVar(&o.json, "json", false, "print one JSON object; the story goes to standard error")
	flags.IntVar(&o.instances, "instances", 2, "`number` of processes that want to run the job")
	flags.DurationVar(&o.ttl, "ttl", 0, "TTL of the lease (library: 60s; here shortened to 3s)")
	flags.DurationVar(&o.renew, "renew", 0, "how often it is renewed (library: a third of the TTL, 20s; here 1s)")
	flags.IntVar(&o.batch, "batch", 5, "orders in one transaction")
	flags.BoolVar(&o.freeze, "freeze", true, "freeze the holder past its lease in mid-job")
	flags.BoolVar(&o.kill, "kill", false, "kill -9 the holder in mid-job (after the freeze, if there is one)")
	flags.StringVar(&o.schema, "schema", "invoicejob", "`name` of the schema for all tables")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.check(flags.Args())
	if err != nil {
		fmt.Fprintf(out, "invoicejob: %v (see -help)\n", err)
	}
	return o, err
}

// check looks at how the flags go together, and fills in the durations.
func (o *options) check(rest []string) error {
	o.given = o.ttl != 0 || o.renew != 0
	switch {
	case o.ttl == 0 && o.renew == 0:
		o.ttl, o.renew = shortTTL, shortRenew
	case o.ttl == 0:
		o.ttl = 3 * o.renew
	case o.renew == 0:
		o.renew = (o.ttl / 3).Round(time.Millisecond)
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case (o.orders == "") != (o.lines == ""):
		return errors.New("-orders and -lines belong together")
	case o.instances < 1 || o.instances > 50:
		return fmt.Errorf("-instances %d: want 1 to 50", o.instances)
	case o.batch < 1 || o.batch > 10000:
		return fmt.Errorf("-batch %d: want 1 to 10000", o.batch)
	case o.ttl < 0 || o.renew < 0 || o.renew >= o.ttl:
		return fmt.Errorf("-renew %v must be shorter than -ttl %v", o.renew, o.ttl)
	case o.schema == "":
		return errors.New("-schema is empty")
	}
	if o.instances == 1 {
		o.freeze = false // Nobody could take over.
	}
	return nil
}

func (o *options) shortened() string {
	if o.given {
		return ""
	}
	return " (shortened from 60s and 20s, to be watched)"
}

//go:embed sample/orders.csv sample/lines.csv
var sample embed.FS

// read gives the orders of the files, or of the sample, and where they are from.
func (o *options) read() ([]order, string, error) {
	source := o.orders
	open := func(name string) (io.ReadCloser, error) { return os.Open(name) }
	orders, lines := o.orders, o.lines
	if source == "" {
		source, orders, lines = "the sample of this example", "sample/orders.csv", "sample/lines.csv"
		open = func(name string) (io.ReadCloser, error) { return sample.Open(name) }
	}
	in, err := open(orders)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = in.Close() }()
	inLines, err := open(lines)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = inLines.Close() }()
	list, err := readOrders(orders, in, lines, inLines)
	return list, source, err
}
