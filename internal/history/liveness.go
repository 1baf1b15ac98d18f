package history

import "math"

// everybodyHasATurn: after the last fault every name is granted again within the bound that the run gave, and every candidate
// is granted what it stands for. A run without faults that end says nothing about it.
func everybodyHasATurn(t *trial) {
	var calms []Event
	for _, e := range t.noted {
		if e.Kind == KindCalm {
			calms = append(calms, e)
		}
	}
	for _, e := range t.noted {
		if len(calms) == 0 && (e.Kind == KindCandidate || e.Kind == KindStood) {
			t.report([]Event{e}, "%q stands, and nobody noted that the faults had ended", e.Client)
			return
		}
	}
	for i, calm := range calms {
		until := int64(math.MaxInt64)
		if i+1 < len(calms) {
			until = calms[i+1].From
		}
		t.turns(calm, until)
	}
}

// turns judges what followed the end of the faults, until the next time that they ended.
func (t *trial) turns(calm Event, until int64) {
	first, candidates, stood := map[string]int64{}, []Event{}, map[asker]bool{}
	for _, e := range t.noted {
		if e.From < calm.From || e.From >= until {
			continue
		}
		switch e.Kind {
		case KindCandidate:
			candidates = append(candidates, e)
		case KindStood:
			stood[asker{e.Client, e.Name}] = true
			if at, found := first[e.Name]; !found || e.To < at {
				first[e.Name] = e.To
			}
		}
	}
	names := map[string]bool{}
	for _, e := range candidates {
		names[e.Name] = true
	}
	for _, name := range t.names {
		if len(t.database[name]) > 0 && t.everGranted(name) && !names[name] {
			t.reportName(name, []Event{calm}, "nobody stood for the name after the last fault")
		}
	}
	judged := map[string]bool{}
	for _, e := range candidates {
		at, granted := first[e.Name]
		switch {
		case judged[e.Name]:
		case !granted:
			t.report([]Event{calm, e}, "the name was never granted again after the last fault")
		case at > calm.To+calm.Left:
			t.report([]Event{calm, e}, "the name was granted again %d µs after the last fault, the bound is %d µs",
				at-calm.To, calm.Left)
		}
		judged[e.Name] = true
		if granted && !stood[asker{e.Client, e.Name}] {
			t.report([]Event{calm, e}, "%q stood for the name after the last fault and was never granted it", e.Client)
		}
	}
}

// everGranted tells whether the record has a grant of the name.
func (t *trial) everGranted(name string) bool {
	for _, e := range t.database[name] {
		if e.Grants() {
			return true
		}
	}
	return false
}
