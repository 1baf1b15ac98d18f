package torture

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// favour is how much more often what is favoured comes up.
const favour = 6

// Options of a [Run].
type Options struct {
	Seed     uint64
	Duration time.Duration // of operations and faults; the end takes some seconds more

	// Program is the path of the client program: see [BuildClient].
	Program string

	DSN    string // of a role that may do everything
	Schema string // where the tables are; the run adds its own

	// Server is frozen and restarted. Nil: the server is somebody else's, and those faults are left out.
	Server *pgserver.Server

	// Pooler is a PgBouncer in transaction mode in front of the server. Every third life goes through it. It must end idle
	// transactions, see PoolerSettings. Default: none.
	Pooler *pgserver.Bouncer

	// Clock is the server's, which was started with it. Default: it is the machine's, and stays right.
	Clock *pgserver.Clock

	// Disk has the server's WAL, and is filled. Default: it is the machine's, and is not.
	Disk *pgserver.Disk

	// Proxy gives a proxy in front of a DSN, and the DSN that leads through it. Each life has one of its own.
	Proxy func(dsn string) (*faultnet.Proxy, string)

	Clients int           // Default: 6.
	Names   []string      // Default: four.
	MinTTL  time.Duration // of a life; drawn. Default: 400 ms.
	MaxTTL  time.Duration // Default: 1 s.

	// Faults names the faults that take part, of those that can. Default: all.
	Faults []string

	// Favour names operations and faults that come up more often. Default: none.
	Favour []string

	// Lacks says what has not happened yet in a run that is to mean something. On a slow machine the run goes on for that,
	// for at most three times Duration more. It is asked about once a second. Default: nothing.
	Lacks func(*Report) []string

	// Enough ends the run early when it says so: the clients are killed, and none stands. It is asked about once a second
	// with what has happened so far. Default: nil.
	Enough func(*Report) bool
}

// PoolerSettings are those of a PgBouncer that takes part. What sessions set for themselves does not get through it, so
// that it has to end the transactions of those that were cut off; and it must ask a server that comes back soon.
var PoolerSettings = map[string]string{
	"idle_transaction_timeout": "1",
	"server_login_retry":       "0.2",
}

func (o Options) withDefaults() Options {
	if o.Clients == 0 {
		o.Clients = 6
	}
	if len(o.Names) == 0 {
		o.Names = []string{"invoice-job", `na"me`, "Zürich", "files"}
	}
	if o.MinTTL == 0 {
		o.MinTTL = 400 * time.Millisecond
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = time.Second
	}
	return o
}

// watch is the time between two looks of a client at its leases: longer in a long run, whose history somebody has to read.
func (o Options) watch() time.Duration {
	return min(max(o.Duration/5000, 12*time.Millisecond), 100*time.Millisecond)
}

// bound is how long after the last fault a name may be away: until the lease of the last holder is over, the server has ended the
// transactions of those that were cut off, and what the clock was ahead has passed. The rest is for a busy machine.
func (o Options) bound() time.Duration {
	return o.MaxTTL + time.Second + maxStep + 20*time.Second
}

// TakesPart lists the faults of a run with these options.
func (o Options) TakesPart() []string {
	var names []string
	for _, f := range o.faults() {
		names = append(names, f.name)
	}
	return names
}

// faults are those that the options name and that can take part.
func (o Options) faults() []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return len(o.Faults) > 0 && !slices.Contains(o.Faults, f.name) || f.where.lacks(o)
	})
}

// check refuses names of faults that there are not.
func (o Options) check() error {
	for _, name := range o.Faults {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }) {
			return fmt.Errorf("torture: there is no fault %q", name)
		}
	}
	if len(o.faults()) == 0 {
		return fmt.Errorf("torture: none of the faults %q can take part", o.Faults)
	}
	return nil
}

// weigh gives the weight of a fault.
func (o Options) weigh(f fault) int {
	if slices.Contains(o.Favour, f.name) {
		return f.weight * favour
	}
	return f.weight
}
