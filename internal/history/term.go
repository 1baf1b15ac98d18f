package history

// A term is one uninterrupted hold as the database saw it: from its grant until its release or its last expiry.
type term struct {
	began    Event
	from     int64
	to       int64 // exclusive
	released bool
}

// terms builds the terms of a name, in the order of their grants.
func (t *trial) terms(name string) []term {
	var list []term
	for _, e := range t.database[name] {
		switch {
		case e.grants():
			list = append(list, term{began: e, from: e.New.Acquired, to: *e.New.Expires})
		case len(list) == 0:
		case e.goesOn() && e.New.Expires != nil:
			last := &list[len(list)-1]
			last.to, last.released = *e.New.Expires, false
		case e.Kind == KindLease: // Released by its holder, revoked or deleted by an operator.
			last := &list[len(list)-1]
			last.to, last.released = min(last.to, e.At), true
		}
	}
	return list
}

// termsDoNotOverlap: in database time a term begins after every earlier one of its name has ended (invariants I2, I5).
func termsDoNotOverlap(t *trial) {
	for _, name := range t.names {
		var latest *term
		for _, next := range t.terms(name) {
			if latest != nil && next.from < latest.to {
				t.report([]Event{latest.began, next.began}, "token %d was granted to %q %d µs before the term of token %d of %q was over",
					next.began.New.Token, next.began.New.Label, latest.to-next.from, latest.began.New.Token, latest.began.New.Label)
			}
			if latest == nil || next.to > latest.to {
				latest = &next
			}
		}
	}
}
