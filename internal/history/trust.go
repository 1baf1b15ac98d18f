package history

import "slices"

// trustWithinTerm: while a client trusts its lease, its term goes on in the database and nobody else's has begun
// (invariant I6); and what a client has called over it never trusts again (I10).
func trustWithinTerm(t *trial) {
	for process, c := range t.clocks {
		if c.torn() {
			t.report(nil, "the clock samples of %q contradict each other: one of the clocks was set", process)
		}
	}
	type key struct {
		process, client, name string
		token                 int64
	}
	ended := map[key]Event{}
	for _, e := range t.noted {
		if e.Kind == KindEnded {
			k := key{e.Process, e.Client, e.Name, e.Token}
			if first, found := ended[k]; !found || e.To < first.To {
				ended[k] = e
			}
		}
	}
	expiries := t.expiries()
	for _, e := range t.noted {
		if e.Kind != KindGranted && e.Kind != KindTrusts {
			continue
		}
		if end, found := ended[key{e.Process, e.Client, e.Name, e.Token}]; found && end.To < e.From {
			t.report([]Event{end, e}, "%q trusts token %d again after its end", e.Client, e.Token)
		}
		c, found := t.clocks[e.Process]
		if !found || c.torn() || e.Left <= 0 {
			continue
		}
		t.trustWithinExpiry(e, c, expiries[holding{e.Name, e.Token}])
		t.trustBeforeNext(e, c)
	}
}

type holding struct {
	name  string
	token int64
}

// expiries are the versions of a term's row that say how long it lasts.
func (t *trial) expiries() map[holding][]Event {
	found := map[holding][]Event{}
	for _, name := range t.names {
		for _, e := range t.database[name] {
			if e.Kind == KindLease && e.New != nil && e.New.Expires != nil {
				k := holding{name, e.New.Token}
				found[k] = append(found[k], e)
			}
		}
	}
	return found
}

// trustWithinExpiry compares until when the client trusts with the latest expiry that had been written by then.
func (t *trial) trustWithinExpiry(e Event, c clock, versions []Event) {
	until, known := c.earliest(e.From)+e.Left, int64(0)
	for _, v := range versions {
		if v.New.Renewed <= c.latest(e.To) {
			known = max(known, *v.New.Expires)
		}
	}
	if until > known {
		t.report([]Event{e}, "%q trusts token %d for %d µs longer than the database", e.Client, e.Token, until-known)
	}
}

// trustBeforeNext looks whether another term had begun when the client was asked.
func (t *trial) trustBeforeNext(e Event, c clock) {
	asked := c.earliest(e.From)
	i := slices.IndexFunc(t.database[e.Name], func(g Event) bool {
		return g.grants() && g.New.Token > e.Token && g.New.Acquired < asked
	})
	if i >= 0 {
		g := t.database[e.Name][i]
		t.report([]Event{g, e}, "%q trusts token %d although %d was granted to %q %d µs before", e.Client, e.Token,
			g.New.Token, g.New.Label, asked-g.New.Acquired)
	}
}
