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
	RuleRecord       = "the record is whole"
	RuleTokensRise   = "tokens rise"
	RuleNoOverlap    = "terms do not overlap"
	RuleWritesInTurn = "writes are in token order"
	RuleGrantFences  = "a grant raises the fence"
	RuleNoRevival    = "a term that is over stays over"
	RuleOwnRows      = "only the holder renews and releases"
	RuleHanded       = "only what was handed out is renewed"
	RuleTrust        = "trust ends before the term"
	RuleConfirmed    = "what was confirmed is there"
	RuleLinearizable = "answers fit one order"
	RuleLiveness     = "everybody has a turn after the faults"
)

var rules = []rule{
	{RuleRecord, recordIsWhole},
	{RuleTokensRise, tokensRise},
	{RuleNoOverlap, termsDoNotOverlap},
	{RuleWritesInTurn, writesInTurn},
	{RuleGrantFences, grantsFence},
	{RuleNoRevival, noRevival},
	{RuleOwnRows, ownRows},
	{RuleHanded, handedIsRenewed},
	{RuleTrust, trustWithinTerm},
	{RuleConfirmed, confirmedIsThere},
	{RuleLinearizable, linearizable},
	{RuleLiveness, everybodyHasATurn},
}

// enough is how many violations of one rule are listed. A history that breaks a promise all the time needs no longer list.
const enough = 100

// Check returns the violations that the rules find, in the order of the rules, the first hundred of each.
func Check(events []Event) []Violation {
	t := newTrial(events)
	var all []Violation
	for _, r := range rules {
		t.rule, t.found = r.name, nil
		r.judge(t)
		if more := len(t.found) - enough; more > 0 {
			t.found = t.found[:enough]
			t.reportName("", nil, "and %d more", more)
		}
		all = append(all, t.found...)
	}
	return all
}

// A trial is a history made ready for the rules, and what they have found.
type trial struct {
	names    []string           // of the database's events, each once, sorted
	database map[string][]Event // by name, in the order of Seq
	noted    []Event            // what processes noted, by time
	terms    map[holding]*term
	holdings []holding // of the terms, by name and token
	longest  int64     // TTL in the record
	clock    Clock
	since    map[int64]int64 // by Seq: a row was not written before, on the machine's clock
	crashes  []crash

	rule  string
	found []Violation
}

func newTrial(events []Event) *trial {
	t := &trial{database: map[string][]Event{}, clock: NewClock(events)}
	for _, e := range events {
		switch {
		case e.Seq > 0:
			t.database[e.Name] = append(t.database[e.Name], e)
			t.names = append(t.names, e.Name)
		case e.Kind == KindCrash:
			t.crashes = append(t.crashes, crash{Event: e})
			fallthrough
		default:
			t.noted = append(t.noted, e)
		}
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	for _, list := range t.database {
		slices.SortStableFunc(list, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	slices.SortStableFunc(t.noted, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Process, b.Process))
	})
	t.since = t.notBefore()
	t.findSurvivors()
	t.terms = t.findTerms()
	for k, term := range t.terms {
		t.holdings = append(t.holdings, k)
		for _, v := range term.versions {
			t.longest = max(t.longest, *v.New.Expires-v.New.Renewed)
		}
	}
	slices.SortFunc(t.holdings, func(a, b holding) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.token, b.token))
	})
	return t
}

// report notes a violation that the events show.
func (t *trial) report(events []Event, format string, args ...any) {
	name := ""
	if len(events) > 0 {
		name = events[len(events)-1].Name
	}
	t.reportName(name, events, format, args...)
}

// reportName is report where no event has the name.
func (t *trial) reportName(name string, events []Event, format string, args ...any) {
	t.found = append(t.found, Violation{Rule: t.rule, Name: name, Text: fmt.Sprintf(format, args...), Events: events})
}
