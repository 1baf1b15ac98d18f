package history

import (
	"cmp"
	"slices"
	"strings"
)

// A lock is all that a history says of one name, for the register.
type lock struct {
	name  string
	noted []Event
	terms []*term // in the order of their tokens
	// expiry is how early the term of a token may have run out, on the machine's clock.
	expiry map[int64]int64
	// writes are by when those that the record has were committed.
	writes map[string]int64
}

// locks gathers what the history says of each name.
func (t *trial) locks() []*lock {
	byName := map[string]*lock{}
	of := func(name string) *lock {
		if byName[name] == nil {
			byName[name] = &lock{name: name, expiry: map[int64]int64{}, writes: map[string]int64{}}
		}
		return byName[name]
	}
	for _, k := range t.holdings {
		l, term := of(k.name), t.terms[k]
		l.terms = append(l.terms, term)
		l.expiry[k.token] = t.expiresFrom(term)
		if term.revoked != nil && term.revoked.Revokes() {
			l.expiry[term.revoked.New.Token] = l.expiry[k.token]
		}
	}
	for _, name := range t.names {
		committed := t.committed(name)
		for _, e := range t.database[name] {
			if e.Kind == KindWrite {
				of(name).writes[e.Write] = committed[e.Seq]
			}
		}
	}
	for _, e := range t.noted {
		if e.Name != "" {
			of(e.Name).noted = append(of(e.Name).noted, e)
		}
	}
	list := make([]*lock, 0, len(byName))
	for _, l := range byName {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *lock) int { return cmp.Compare(a.name, b.name) })
	return list
}

// expiresFrom is the earliest time at which the term may have run out, over the steps of the clock that followed its last
// version.
func (t *trial) expiresFrom(term *term) int64 {
	last := term.versions[len(term.versions)-1]
	at := int64(end)
	for _, m := range t.clock.near(t.written(last)) {
		for _, s := range append([]span{m.span}, t.clock.spans...) {
			if reached := max(m.lo, s.from, *last.New.Expires-s.high); s.to >= m.lo && reached <= s.to {
				at = min(at, reached)
			}
		}
	}
	return at
}

// expiredFrom is the time from which on the database's clock certainly says that the term has run out.
func (t *trial) expiredFrom(term *term) int64 {
	last := term.versions[len(term.versions)-1]
	at := int64(beginning)
	for _, m := range t.clock.near(t.written(last)) {
		for _, s := range append([]span{m.span}, t.clock.spans...) {
			if s.to >= m.lo {
				at = max(at, min(s.to, *last.New.Expires-s.low))
			}
		}
	}
	return at
}

// moves are all moves of a name, by their beginning.
func (t *trial) moves(l *lock) []move {
	list := t.told(l)
	known := map[moveKind]map[int64]bool{granted: {}, released: {}}
	for _, m := range list {
		if known[m.kind] != nil {
			known[m.kind][m.token] = true
		}
	}
	for _, m := range t.untold(l) {
		if known[m.kind] == nil || !known[m.kind][m.token] {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b move) int { return cmp.Compare(a.from, b.from) })
	return list
}

// told are the moves that clients know of, in their own windows.
func (t *trial) told(l *lock) []move {
	var list []move
	answered, given := map[int64]bool{}, map[int64]bool{}
	trusts := map[int64]Event{}
	add := func(kind moveKind, token int64, e Event) {
		list = append(list, move{kind: kind, token: token, from: e.From, to: e.To, event: e})
	}
	for _, e := range l.noted {
		switch e.Kind {
		case KindAnswer:
			if e.Token > 0 {
				answered[e.Token] = true
				add(granted, e.Token, e)
			} else if e.Seen > 0 {
				add(sawHeld, e.Seen, e)
			}
		case KindReleased:
			if kind, counts := t.released(l, e); counts && !given[e.Token] {
				given[e.Token] = true
				add(kind, e.Token, e)
			}
		case KindWrote:
			add(wrote, e.Token, e)
		case KindRefused:
			if e.stale() {
				add(refused, e.Token, e)
			}
		case KindUnknown:
			if by, there := l.writes[e.Write]; there {
				list = append(list, move{kind: wrote, token: e.Token, from: e.From, to: max(by, e.From), event: e})
			}
		case KindTrusts:
			if e.Left > 0 {
				trusts[e.Token] = e
			}
		}
	}
	for _, e := range l.noted {
		if e.Kind == KindStood && !answered[e.Token] {
			add(granted, e.Token, e)
		}
	}
	for token, e := range trusts {
		if t.trustCounts(l.name, token, e) {
			add(sawHeld, token, e)
		}
	}
	return list
}

// released is what a confirmed release was. One that the record does not have was forgotten by a crash of the server. Nobody can
// have been granted the name between the two, as a grant waits until all before it is on the disk: the term just goes on. One
// that found the row freed by an operator changed nothing.
func (t *trial) released(l *lock, e Event) (kind moveKind, counts bool) {
	term := t.terms[holding{l.name, e.Token}]
	switch {
	case !e.says(ReleaseDone):
		return released, false
	case term == nil || term.released != nil:
		return released, true
	default:
		return sawHeld, term.revoked == nil
	}
}

// trustCounts tells whether the last time that a client trusted a token shows that it held. It does not if the term
// may have been cut short meanwhile.
func (t *trial) trustCounts(name string, token int64, e Event) bool {
	since, over := int64(beginning), true
	if term := t.terms[holding{name, token}]; term != nil {
		if term.revoked != nil {
			return false
		}
		since, over = earliest(t.written(term.granted)), t.expiresFrom(term) <= e.To
	}
	_, cut := t.clock.jumped(since, e.To, true)
	return !(cut && over) && !t.crashed(since, e.To, true)
}

// untold are the moves that the record has, at the times at which they may have been committed.
func (t *trial) untold(l *lock) []move {
	var list []move
	committed := t.committed(l.name)
	add := func(kind moveKind, token int64, e Event) {
		list = append(list, move{kind: kind, token: token, from: earliest(t.written(e)), to: committed[e.Seq], event: e})
	}
	highest, grants, writes := int64(0), map[int64]bool{}, map[int64]bool{}
	for _, e := range t.database[l.name] {
		grants[e.Xid] = grants[e.Xid] || e.Grants() || e.Revokes()
		writes[e.Xid] = writes[e.Xid] || e.Kind == KindWrite
	}
	for _, e := range t.database[l.name] {
		switch {
		case e.Grants():
			highest = max(highest, e.New.Token)
			add(granted, e.New.Token, e)
		case e.Revokes():
			highest = max(highest, e.New.Token)
			add(renumbered, e.New.Token, e)
		case e.deletesAlive():
			add(released, e.Old.Token, e)
		case e.GoesOn() && e.Old.Expires != nil && e.New.Expires == nil:
			add(released, e.New.Token, e)
		case e.Kind == KindFence && e.Token > highest && !grants[e.Xid] && !writes[e.Xid]:
			add(raised, e.Token, e)
		}
	}
	return list
}

// committed is by when each event of the database was certainly committed: when the next change of its row was recorded, which the
// row's lock kept out until then. A write holds the row of its fence.
func (t *trial) committed(name string) map[int64]int64 {
	at := map[int64]int64{}
	lease, fence := int64(end), int64(end)
	for _, e := range slices.Backward(t.database[name]) {
		next := &fence
		if e.Kind == KindLease {
			next = &lease
		}
		at[e.Seq] = max(*next, earliest(t.written(e)))
		switch e.Kind {
		case KindLease:
			lease = latest(t.written(e))
		case KindFence:
			fence = latest(t.recorded(e))
		}
	}
	return at
}

// says tells whether a text begins with one of the words for it.
func (e Event) says(word string) bool { return strings.HasPrefix(e.Text, word) }

// stale tells whether a write was refused by its fence, not by another definite error.
func (e Event) stale() bool { return e.Text == "" || strings.Contains(e.Text, "stale") }
