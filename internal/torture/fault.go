package torture

import (
	"context"
	"fmt"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A fault is a kind of trouble. do draws its arguments from d, causes it, waits, and ends it, also when ctx ends. It
// returns what it did.
type fault struct {
	name   string
	weight int
	where  place
	do     func(ctx context.Context, r *run, d dice) (string, error)
}

// A place says what a fault breaks. Faults of different places go on at once, so that they mix.
type place int

const (
	network place = iota // one client's connections
	session              // what administrators do while the server runs
	server               // the whole server; only if it is our own
)

// faults are all faults. A new one is a file fault_NAME.go and a line here.
var faults = []fault{
	reset,
	blackHole,
	held,
	late,
	dropReplies,
	refused,
	terminated,
	rewritten,
	indexed,
	freezeShort,
	freezeLong,
	restartFast,
	restartImmediate,
}

// A nemesis causes faults of one place, one after the other.
type nemesis struct {
	run    *run
	plan   plan
	faults []fault
}

// newNemesis makes one of perhaps several nemeses of a place.
func newNemesis(r *run, where place, number int) *nemesis {
	n := &nemesis{run: r, plan: plan{seed: r.options.Seed, who: fmt.Sprintf("nemesis %d.%d", where, number)}}
	for _, f := range faults {
		if f.where == where {
			n.faults = append(n.faults, f)
		}
	}
	return n
}

// work causes faults until ctx ends, with pauses of quiet drawn for the place.
func (n *nemesis) work(ctx context.Context, quiet pauses) error {
	weights := make([]int, len(n.faults))
	for i, f := range n.faults {
		weights[i] = n.run.options.weigh(f.name, f.weight)
	}
	g := n.run.log
	for {
		d := n.plan.next()
		if !sleep(ctx, d.between(quiet.low, quiet.high)) {
			return nil
		}
		f := n.faults[d.weighted(weights)]
		from := g.now()
		what, err := f.do(ctx, n.run, d)
		if err != nil {
			return fmt.Errorf("torture: fault %q: %w", f.name, err)
		}
		g.count("faults")
		g.count("fault " + f.name)
		g.note(from, history.Event{Kind: history.KindFault, Text: f.name + ": " + what})
	}
}
