package history

// tokensRise: each grant of a name has a token above every earlier one, and neither a lease nor a fence ever goes down
// (invariant I1).
func tokensRise(t *trial) {
	for _, name := range t.names {
		var granted, fence *Event
		for _, e := range t.database[name] {
			switch {
			case e.Grants():
				if granted != nil && e.New.Token <= granted.New.Token {
					t.report([]Event{*granted, e}, "token %d was granted after %d", e.New.Token, granted.New.Token)
				}
				if granted == nil || e.New.Token > granted.New.Token {
					granted = &e
				}
			case e.Kind == KindLease && e.Old != nil && e.New != nil && e.New.Token < e.Old.Token:
				t.report([]Event{e}, "the lease's token went from %d down to %d", e.Old.Token, e.New.Token)
			case e.Kind == KindFence:
				if fence != nil && e.Token < fence.Token {
					t.report([]Event{*fence, e}, "the fence went from %d down to %d", fence.Token, e.Token)
				}
				fence = &e
			}
		}
	}
}
