package history

import (
	"cmp"
	"slices"
	"sort"
)

// trustWithinTerm: while a client trusts its lease, its term goes on in the database and nobody else's has begun
// (invariant I6); and what a client has called over it never trusts again (I10).
//
// Trust rests on a version of the row. It is compared with that version's expiry on the clock of the span that it was written
// in: a client cannot know that the clock was set afterwards, so its trust may outlast a term that a step forwards cut
// short, and the next may begin meanwhile. It never outlasts what the expiry meant when it was written.
func trustWithinTerm(t *trial) {
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
	limits, grants := t.limits(), t.grantsByToken()
	for _, e := range t.noted {
		if e.Kind != KindGranted && e.Kind != KindTrusts {
			continue
		}
		if end, found := ended[key{e.Process, e.Client, e.Name, e.Token}]; found && end.To < e.From {
			t.report([]Event{end, e}, "%q trusts token %d again after its end", e.Client, e.Token)
		}
		if !t.clock.Known() || e.Left <= 0 && e.Kind == KindGranted { // Handed, and over at once.
			continue
		}
		if rests, ok := t.trustWithinExpiry(e, limits[holding{e.Name, e.Token}]); ok {
			t.trustBeforeNext(e, rests, grants[e.Name])
		}
	}
}

// A limit is a version of a term's row as trust is measured by it.
type limit struct {
	version Event
	since   int64 // it was not written before, on the machine's clock
	sooner  int64 // its expiry is not before, unless the clock is set
	until   int64 // and not after
}

// limits are those of each term, in the order of the record.
func (t *trial) limits() map[holding][]limit {
	all := map[holding][]limit{}
	for k, term := range t.terms {
		for _, v := range term.versions {
			for _, m := range t.clock.near(t.written(v)) {
				all[k] = append(all[k], limit{v, m.lo, *v.New.Expires - m.high, *v.New.Expires - m.low})
			}
		}
		slices.SortStableFunc(all[k], func(a, b limit) int { return cmp.Compare(a.since, b.since) })
	}
	return all
}

// trustWithinExpiry compares until when the client trusts with the latest expiry that had been written by then. It returns
// the version that the trust rests on.
func (t *trial) trustWithinExpiry(e Event, limits []limit) (rests limit, ok bool) {
	until, known := e.From+e.Left+e.Margin, int64(beginning)
	written := sort.Search(len(limits), func(i int) bool { return limits[i].since > e.To })
	for i := written - 1; i >= 0; i-- {
		if limits[i].until >= until {
			return limits[i], true
		}
		known = max(known, limits[i].until)
	}
	switch {
	case t.crashed(e.From-t.longest, e.From+e.Left, true): // The version is forgotten.
	case known == beginning:
		t.report([]Event{e}, "%q trusts token %d, which it was not granted by then", e.Client, e.Token)
	case known >= until-e.Margin:
		t.report([]Event{e}, "%q trusts token %d to within %d µs of its expiry, and its margin is %d µs", e.Client, e.Token,
			known-until+e.Margin, e.Margin)
	default:
		t.report([]Event{e}, "%q trusts token %d for %d µs longer than the database", e.Client, e.Token, until-e.Margin-known)
	}
	return limit{}, false
}

// A later is a grant of a name, and the earliest time by which a grant of its token or a higher one was certainly there.
type later struct {
	token int64
	by    int64
	grant Event
}

// grantsByToken lists the grants of each name, the lowest token first.
func (t *trial) grantsByToken() map[string][]later {
	all := map[string][]later{}
	for _, k := range t.holdings {
		grant := t.terms[k].granted
		all[k.name] = append(all[k.name], later{k.token, latest(t.written(grant)), grant})
	}
	for _, list := range all {
		for i := len(list) - 2; i >= 0; i-- {
			if next := list[i+1]; next.by < list[i].by {
				list[i].by, list[i].grant = next.by, next.grant
			}
		}
	}
	return all
}

// trustBeforeNext looks whether another term had begun when the client was asked. That is no fault if the clock was set forwards
// between the version that the trust rests on and the next grant, by as much as that came too soon; if an operator ended the
// term; or if the database went back to before it.
func (t *trial) trustBeforeNext(e Event, rests limit, grants []later) {
	i := sort.Search(len(grants), func(i int) bool { return grants[i].token > e.Token })
	if i == len(grants) || grants[i].by >= e.From {
		return
	}
	next := grants[i]
	if by, found := t.clock.jumped(rests.since, next.by, true); found && by >= rests.sooner-next.by {
		return
	}
	if term := t.terms[holding{e.Name, e.Token}]; term != nil && term.revoked != nil || t.crashed(rests.since, next.by, true) {
		return
	}
	t.report([]Event{next.grant, e}, "%q trusts token %d although %d was granted to %q %d µs before", e.Client, e.Token,
		next.grant.New.Token, next.grant.New.Label, e.From-next.by)
}
