package history

// noRevival: a renewal whose statement arrived after the term's release, revocation or expiry changes nothing (invariant I2).
//
// The time of arrival is compared, not that of the new version of the row: a statement that found the lease alive and
// was held up before it wrote is no fault, as it held the row's lock meanwhile.
func noRevival(t *trial) {
	for _, name := range t.names {
		revoked := map[int64]bool{} // tokens that an operator gave to the row of another's term
		for _, e := range t.database[name] {
			switch {
			case e.Revokes():
				revoked[e.New.Token] = true
			case e.Grants():
				delete(revoked, e.New.Token)
			case !e.Renews():
			case e.Old.Expires == nil:
				t.report([]Event{e}, "token %d of %q was renewed after its release", e.New.Token, e.New.Label)
			case revoked[e.New.Token]:
				t.report([]Event{e}, "the row of %q was renewed after an operator had given it token %d", e.New.Label, e.New.Token)
			case e.Started > *e.Old.Expires:
				t.arrivedLate(e)
			}
		}
	}
}

// arrivedLate reports a renewal that arrived after the expiry, unless the clock may have been set back before it looked: what has
// expired on the database's clock and not been taken over lives on when the clock goes back.
func (t *trial) arrivedLate(e Event) {
	late := e.Started - *e.Old.Expires
	if by, found := t.setBack(e); found && late <= by {
		return
	}
	t.report([]Event{e}, "token %d of %q was renewed by a statement that arrived %d µs after its expiry",
		e.New.Token, e.New.Label, late)
}

// ownRows: a term is renewed and released by its holder alone. By is the session's name, which clients of a run set to their
// label. An operator who raises the epoch frees all rows, and raises their fences in the same transaction.
func ownRows(t *trial) {
	for _, name := range t.names {
		raised := raises(t.database[name])
		for _, e := range t.database[name] {
			switch {
			case e.By == "" || e.New == nil || e.By == e.New.Label:
			case e.Grants():
				t.report([]Event{e}, "%q was granted token %d by a session of %q", e.New.Label, e.New.Token, e.By)
			case e.GoesOn() && (e.New.Expires != nil || raised[e.Xid] <= e.New.Token):
				t.report([]Event{e}, "%q changed the term of token %d, which is that of %q", e.By, e.New.Token, e.New.Label)
			}
		}
	}
}

// A statement that was held back on its way may arrive when its caller has given up. Each call has one renewal on its way.
const renewalsOnTheirWay = 2

// handedIsRenewed: a term that no client was ever handed is not kept alive. Its attempt may have renewed it, to confirm a
// grant whose answer was lost, while the call went on (invariant I9).
func handedIsRenewed(t *trial) {
	handed, calls := map[holding]bool{}, map[asker][]Event{}
	for _, e := range t.noted {
		switch {
		case e.Kind == KindGranted || e.Kind == KindTrusts || e.Kind == KindAnswer && e.Token > 0:
			handed[holding{e.Name, e.Token}] = true
		}
		if e.Kind == KindAnswer {
			calls[asker{e.Client, e.Name}] = append(calls[asker{e.Client, e.Name}], e)
		}
	}
	for _, k := range t.holdings {
		term := t.terms[k]
		if handed[k] || len(calls[asker{term.granted.New.Label, k.name}]) == 0 {
			continue
		}
		answered, found := t.answered(term, calls[asker{term.granted.New.Label, k.name}])
		var after []Event
		for _, v := range term.versions[1:] {
			if found && earliest(t.clock.moments(v.Started, beginning, end)) > answered {
				after = append(after, v)
			}
		}
		if len(after) > renewalsOnTheirWay {
			t.report(after, "token %d of %q was renewed %d times after its call had returned without it",
				k.token, term.granted.New.Label, len(after))
		}
	}
}

// An asker is a client that asks for a name.
type asker struct{ client, name string }

// answered is when the call that led to the grant had certainly returned: the last that may have been under way then. Not
// found: no such call returned, as when the client was killed.
func (t *trial) answered(term *term, calls []Event) (at int64, found bool) {
	granted := t.written(term.granted)
	for _, call := range calls {
		if call.From <= latest(granted) && call.To >= earliest(granted) {
			at, found = max(at, call.To), true
		}
	}
	return at, found
}
