package history

// writesInTurn: a fenced write commits only if its token is not below the fence at its commit, not below a token that was
// granted before, and not below that of a write committed before; and no token passes that was never granted (invariant I3;
// design, fence checks). No clock is involved.
//
// The number of a write is drawn at its commit, while it holds the lock on the fence; a grant draws its number
// under the same lock. So the order of the numbers is the order of commits, unless a check does not hold its lock,
// which is what this rule is to find.
func writesInTurn(t *trial) {
	forgotten := map[holding]bool{} // tokens that were handed out, by a grant that a failover forgot
	for _, e := range t.noted {
		k := holding{e.Name, e.Token}
		if (e.Kind == KindGranted || e.Kind == KindAnswer && e.Token > 0) && t.terms[k] == nil {
			forgotten[k] = true
		}
	}
	for _, name := range t.names {
		var granted, raised, written *Event
		known := map[int64]bool{}
		highest := func(e *Event, seen **Event, token int64) {
			if *seen == nil || token > tokenOf(**seen) {
				*seen = e
			}
		}
		for _, e := range t.database[name] {
			switch {
			case e.Grants():
				highest(&e, &granted, e.New.Token)
				known[e.New.Token] = true
			case e.Kind == KindFence:
				highest(&e, &raised, e.Token)
			case e.Kind == KindWrite:
				switch {
				case e.Token < e.Fence:
					t.report([]Event{e}, "a write with token %d was committed when the fence was %d", e.Token, e.Fence)
				case raised != nil && e.Token < raised.Token:
					t.report([]Event{*raised, e}, "a write with token %d was committed after the fence was raised to %d", e.Token, raised.Token)
				case granted != nil && e.Token < granted.New.Token:
					t.report([]Event{*granted, e}, "a write with token %d was committed after %d was granted", e.Token, granted.New.Token)
				case written != nil && e.Token < written.Token:
					t.report([]Event{*written, e}, "a write with token %d was committed after one with %d", e.Token, written.Token)
				case granted != nil && !known[e.Token] && !forgotten[holding{name, e.Token}]:
					t.report([]Event{*granted, e}, "a write with token %d was committed, which was never granted", e.Token)
				}
				highest(&e, &written, e.Token)
			}
		}
	}
}

func tokenOf(e Event) int64 {
	if e.New != nil {
		return e.New.Token
	}
	return e.Token
}

// grantsFence: the transaction that grants raises the fence at least to the new token (invariant I3).
func grantsFence(t *trial) {
	for _, name := range t.names {
		fence := raises(t.database[name])
		highest := int64(0)
		for _, e := range t.database[name] {
			if e.Kind == KindFence {
				highest = max(highest, e.Token)
			}
			if e.Grants() && max(highest, fence[e.Xid]) < e.New.Token {
				t.report([]Event{e}, "token %d was granted and the fence stayed at %d", e.New.Token, highest)
			}
		}
	}
}
