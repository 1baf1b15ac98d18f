package history

// confirmedIsThere: a token that a client was handed was granted to it in the database, a write whose commit was confirmed
// is there, and of a refused one there is nothing (invariants I9, I3). A restart of the server changes none of this; only a
// release may be forgotten by one.
func confirmedIsThere(t *trial) {
	grants, writes := map[holding]string{}, map[string]Event{}
	for _, name := range t.names {
		for _, e := range t.database[name] {
			if e.grants() {
				grants[holding{name, e.New.Token}] = e.New.Label
			}
			if e.Kind == KindWrite {
				writes[e.Write] = e
			}
		}
	}
	for _, e := range t.noted {
		write, written := writes[e.Write]
		switch e.Kind {
		case KindGranted:
			if label, found := grants[holding{e.Name, e.Token}]; !found {
				t.report([]Event{e}, "%q was handed token %d, which the database did not grant", e.Client, e.Token)
			} else if label != e.Client {
				t.report([]Event{e}, "%q was handed token %d, which was granted to %q", e.Client, e.Token, label)
			}
		case KindWrote:
			if !written {
				t.report([]Event{e}, "the commit of %q with token %d was confirmed and is not there", e.Write, e.Token)
			}
		case KindRefused:
			if written {
				t.report([]Event{e, write}, "%q with token %d was refused and is there", e.Write, e.Token)
			}
		}
	}
}
