package history

// A holding is a term's name and token.
type holding struct {
	name  string
	token int64
}

// A term is one uninterrupted hold as the database recorded it: from its grant until the next, over its renewals.
type term struct {
	granted  Event
	versions []Event // that say how long it lasts: the grant and the renewals
	released *Event  // freed by its holder, or by an attempt's own clean-up
	revoked  *Event  // ended by an operator: freed, deleted or given another token
	next     *Event  // the grant that followed
}

// findTerms builds the terms of all names.
func (t *trial) findTerms() map[holding]*term {
	found := map[holding]*term{}
	for _, name := range t.names {
		raised := raises(t.database[name])
		var current *term
		for _, e := range t.database[name] {
			switch {
			case e.Kind != KindLease:
				continue
			case e.Grants():
				next := &term{granted: e, versions: []Event{e}}
				if current != nil {
					current.next = &e
				}
				if k := (holding{name, e.New.Token}); found[k] == nil {
					found[k] = next
				}
				current = next
			case current == nil:
			case e.Revokes() && e.Old.Expires != nil || e.deletesAlive():
				current.revoked = &e
			case e.New == nil || e.Revokes():
			case e.New.Expires != nil:
				current.versions = append(current.versions, e)
			case raised[e.Xid] > e.New.Token:
				current.revoked = &e
			default:
				current.released = &e
			}
		}
	}
	return found
}

// raises is the highest fence that each transaction wrote.
func raises(events []Event) map[int64]int64 {
	highest := map[int64]int64{}
	for _, e := range events {
		if e.Kind == KindFence {
			highest[e.Xid] = max(highest[e.Xid], e.Token)
		}
	}
	return highest
}

// termsDoNotOverlap: a grant replaces a row that was free, or had expired at the grant's own time on the database's clock
// (invariants I2, I5). Who was before whom is the order of the record: it needs no clock, and holds across its steps.
func termsDoNotOverlap(t *trial) {
	for _, name := range t.names {
		var last *Event
		for _, e := range t.database[name] {
			if e.Kind != KindLease {
				continue
			}
			if e.Grants() {
				t.grantReplaces(e, e.Old, last)
				if last != nil && !last.New.equal(e.Old) { // The record has a gap, or the grant did not look.
					t.grantReplaces(e, last.New, last)
				}
			}
			last = &e
		}
	}
}

// grantReplaces judges a grant over the version of the row that it found.
func (t *trial) grantReplaces(grant Event, old *Row, shown *Event) {
	if old == nil || old.Expires == nil || *old.Expires <= grant.New.Acquired {
		return
	}
	early := *old.Expires - grant.New.Acquired
	// Between the check and the row's new version the clock may have been set back.
	if by, found := t.setBack(grant); found && early <= by {
		return
	}
	events := []Event{grant}
	if shown != nil {
		events = []Event{*shown, grant}
	}
	t.report(events, "token %d was granted to %q %d µs before the term of token %d of %q was over",
		grant.New.Token, grant.New.Label, early, old.Token, old.Label)
}

// setBack tells whether the clock may have been set back between the arrival of a statement, or the last change of the row before
// it, and the new version of the row; and by how much at most.
func (t *trial) setBack(e Event) (by int64, found bool) {
	from := max(t.notedSince(e), earliest(t.clock.moments(e.Started, beginning, e.until())))
	return t.clock.jumped(from, latest(t.written(e)), false)
}

// written are the times at which the new version of a row may have been made.
func (t *trial) written(e Event) []moment {
	at := e.At
	switch {
	case e.Grants():
		at = e.New.Acquired
	case e.Renews():
		at = e.New.Renewed
	}
	return t.clock.moments(at, t.notedSince(e), e.until())
}

// recorded are the times at which an event may have been recorded.
func (t *trial) recorded(e Event) []moment { return t.clock.moments(e.At, t.notedSince(e), e.until()) }

// until is a time by which the event had been recorded.
func (e Event) until() int64 {
	if e.Up > 0 {
		return e.Up + tick
	}
	return end
}

func (t *trial) notedSince(e Event) int64 {
	if at, found := t.since[e.Seq]; found {
		return at
	}
	return beginning
}

// notBefore is for each event of the database a time of the machine's clock before which it was not made. A row is locked from
// its change until the commit, so the change before it had been recorded; a write holds its fence in the same way; and the call
// that a client was granted a term in had begun.
func (t *trial) notBefore() map[int64]int64 {
	called := map[holding]Event{}
	for _, e := range t.noted {
		if e.Kind == KindAnswer && e.Token > 0 {
			called[holding{e.Name, e.Token}] = e
		}
	}
	since := map[int64]int64{}
	for _, name := range t.names {
		lease, fence := int64(beginning), int64(beginning)
		for _, e := range t.database[name] {
			row := &fence
			if e.Kind == KindLease {
				row = &lease
			}
			since[e.Seq] = *row
			if e.Grants() {
				if call, found := called[holding{name, e.New.Token}]; found && call.Client == e.New.Label {
					since[e.Seq] = max(*row, call.From)
				}
			}
			if e.Up > 0 && e.Kind != KindWrite { // Writes may share a fence.
				*row = e.Up
			}
		}
	}
	return since
}

func earliest(list []moment) int64 { lo, _ := hull(list); return lo }
func latest(list []moment) int64   { _, hi := hull(list); return hi }
