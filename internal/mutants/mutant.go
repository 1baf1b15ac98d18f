package mutants

import (
	"slices"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A Mutant is the library with one fault put in.
type Mutant struct {
	Name  string // of the subtest
	Fault string // what is wrong, in a sentence
	Edits []Edit
	// Favour names operations and faults of the torture that bring the fault to light soon.
	Favour []string
	// Faults are those that take part. Default: all.
	Faults []string
	// Rules are those of package history of which one must find the fault. Without them the mutant is none: nothing may be
	// found.
	Rules []string
	// Calm says that the fault shows only when the faults of the run have ended: it is judged at its end.
	Calm bool
	// Suite is the test that finds the fault where the torture cannot: a failover.
	Suite *Suite
	// Slow says that building it takes a minute: it is not drawn.
	Slow bool
}

// A Suite is a test of this module that fails on a mutant.
type Suite struct {
	Package string // path in the module
	Run     string // the pattern of -run
	Says    string // what its output must have in it, besides the failure
}

// Caught tells whether a violation is one that the mutant has to be found by.
func (m Mutant) Caught(v history.Violation) bool { return slices.Contains(m.Rules, v.Rule) }

// All lists the mutants, those that are faults before those that are none.
func All() []Mutant {
	return slices.Concat(statements, client, fences, failover, sound)
}
