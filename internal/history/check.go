package history

import (
	"cmp"
	"fmt"
	"slices"
)

// A Violation is a promise that a history breaks.
type Violation struct {
	Rule   string  // which rule found it
	Name   string  // of the lease
	Text   string  // what is wrong
	Events []Event // the events that show it
}

// String implements fmt.Stringer.
func (v Violation) String() string { return fmt.Sprintf("%s: %q: %s", v.Rule, v.Name, v.Text) }

// A rule judges a history. To add one, write it and name it in the list.
type rule struct {
	name  string
	judge func(*trial)
}

// Names of the rules.
const (
	RuleTokensRise   = "tokens rise"
	RuleNoOverlap    = "terms do not overlap"
	RuleWritesInTurn = "writes are in token order"
	RuleGrantFences  = "a grant raises the fence"
	RuleNoRevival    = "a term that is over stays over"
	RuleOwnRows      = "only the holder renews and releases"
	RuleTrust        = "trust ends before the term"
	RuleConfirmed    = "what was confirmed is there"
)

var rules = []rule{
	{RuleTokensRise, tokensRise},
	{RuleNoOverlap, termsDoNotOverlap},
	{RuleWritesInTurn, writesInTurn},
	{RuleGrantFences, grantsFence},
	{RuleNoRevival, noRevival},
	{RuleOwnRows, ownRows},
	{RuleTrust, trustWithinTerm},
	{RuleConfirmed, confirmedIsThere},
}

// Check returns every violation that the rules find, in the order of the rules.
func Check(events []Event) []Violation {
	t := newTrial(events)
	for _, r := range rules {
		t.rule = r.name
		r.judge(t)
	}
	return t.found
}

// A trial is a history made ready for the rules, and what they have found.
type trial struct {
	names    []string           // each once, sorted
	database map[string][]Event // by name, in the order of Seq
	noted    []Event            // what processes noted, by process and time
	clocks   map[string]clock   // by process

	rule  string
	found []Violation
}

func newTrial(events []Event) *trial {
	t := &trial{database: map[string][]Event{}, clocks: clocksOf(events)}
	for _, e := range events {
		if e.Seq > 0 {
			t.database[e.Name] = append(t.database[e.Name], e)
			t.names = append(t.names, e.Name)
		} else {
			t.noted = append(t.noted, e)
		}
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	for _, list := range t.database {
		slices.SortFunc(list, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	slices.SortStableFunc(t.noted, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.From, b.From))
	})
	return t
}

// report notes a violation that the events show.
func (t *trial) report(events []Event, format string, args ...any) {
	v := Violation{Rule: t.rule, Text: fmt.Sprintf(format, args...), Events: events}
	if len(events) > 0 {
		v.Name = events[len(events)-1].Name
	}
	t.found = append(t.found, v)
}
