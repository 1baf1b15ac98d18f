package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// A fault is a kind of trouble. do draws its arguments from d, causes it, waits, and ends it, also when ctx ends. It
// returns what it did.
type fault struct {
	name   string
	weight int
	where  *place
	do     func(ctx context.Context, r *run, d plan.Dice) (deed, error)
}

// A deed is what a fault did, and to which life of a client, if it was one.
type deed struct{ client, text string }

// nobody is the deed of a fault whose client has no process at the moment.
func nobody(c *client) deed { return deed{"", fmt.Sprintf("client %d is between two lives", c.number)} }

// A place is what a fault breaks. Faults of different places go on at once, so that they mix.
type place struct {
	name        string
	nemeses     int           // at work at once
	least, most time.Duration // of quiet between two faults
	lacks       func(Options) bool
}

var (
	process = &place{"process", 1, 200 * time.Millisecond, 900 * time.Millisecond, never}
	network = &place{"network", 2, 20 * time.Millisecond, 200 * time.Millisecond, never}
	session = &place{"session", 1, 100 * time.Millisecond, 600 * time.Millisecond, never}
	// settings are the server's own.
	settings = &place{"settings", 1, 500 * time.Millisecond, 3 * time.Second, func(o Options) bool { return o.Server == nil }}
	server   = &place{"server", 1, 600 * time.Millisecond, 1800 * time.Millisecond, func(o Options) bool { return o.Server == nil }}
	// disk is that of the server's WAL.
	disk = &place{"disk", 1, 2 * time.Second, 6 * time.Second, func(o Options) bool { return o.Disk == nil || o.Server == nil }}
	// timepiece is the server's clock.
	timepiece = &place{"clock", 1, time.Second, 4 * time.Second, func(o Options) bool { return o.Clock == nil }}
	pooler    = &place{"pooler", 1, time.Second, 3 * time.Second, func(o Options) bool { return o.Pooler == nil }}
)

// places are all of them.
var places = []*place{process, network, session, settings, server, disk, timepiece, pooler}

func never(Options) bool { return false }

// faults are all faults. A new one is a file fault_NAME.go and a line here.
var faults = []fault{
	stopShort,
	stopLong,
	killed,
	reset,
	resetBefore,
	resetAfter,
	blackHole,
	held,
	late,
	lossy,
	dropRequests,
	dropReplies,
	holdRequests,
	holdReplies,
	refused,
	terminated,
	impatient,
	revoked,
	raised,
	rewritten,
	indexed,
	freezeShort,
	freezeLong,
	restartFast,
	restartImmediate,
	diskFull,
	ahead,
	behind,
	poolerRestart,
}

// A nemesis causes faults of one place, one after the other.
type nemesis struct {
	run    *run
	where  *place
	plan   plan.Plan
	deck   *plan.Deck
	faults []fault
}

// newNemesis makes one of perhaps several nemeses of a place. Nil: it has nothing to do.
func newNemesis(r *run, where *place, number int) *nemesis {
	who := fmt.Sprintf("nemesis %s %d", where.name, number)
	n := &nemesis{run: r, where: where, plan: plan.Plan{Seed: r.options.Seed, Who: who}}
	var weights []int
	for _, f := range r.options.faults() {
		if f.where == where {
			n.faults = append(n.faults, f)
			weights = append(weights, r.options.weigh(f))
		}
	}
	if len(n.faults) == 0 {
		return nil
	}
	n.deck = plan.NewDeck(r.options.Seed, who, weights)
	return n
}

// next draws how long it is quiet, and the fault after that.
func (n *nemesis) next() (time.Duration, fault, plan.Dice) {
	d := n.plan.Next()
	return d.Between(n.where.least, n.where.most), n.faults[n.deck.Next()], d
}

// work causes faults until ctx ends.
func (n *nemesis) work(ctx context.Context) error {
	for {
		quiet, f, d := n.next()
		if !sleep(ctx, quiet) {
			return nil
		}
		from := clock.Now()
		what, err := f.do(ctx, n.run, d)
		if err != nil {
			return fmt.Errorf("torture: fault %q: %w", f.name, err)
		}
		n.run.book.Note(from, history.Event{Kind: history.KindFault, Client: what.client, Text: f.name + ": " + what.text})
	}
}
