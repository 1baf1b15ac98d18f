package history

// noRevival: a renewal whose statement arrived after the term's release or expiry changes nothing (invariant I2).
//
// The time of arrival is compared, not that of the new version of the row: a statement that found the lease alive and
// was held up before it wrote is no fault, as it held the row's lock meanwhile.
func noRevival(t *trial) {
	for _, name := range t.names {
		for _, e := range t.database[name] {
			if !e.goesOn() || e.New.Expires == nil {
				continue
			}
			if e.Old.Expires == nil {
				t.report([]Event{e}, "token %d of %q was renewed after its release", e.New.Token, e.New.Label)
			} else if e.Started > *e.Old.Expires {
				t.report([]Event{e}, "token %d of %q was renewed by a statement that arrived %d µs after its expiry",
					e.New.Token, e.New.Label, e.Started-*e.Old.Expires)
			}
		}
	}
}

// ownRows: a term is renewed and released by its holder alone. By is the session's name, which clients of a run set to their label.
func ownRows(t *trial) {
	for _, name := range t.names {
		for _, e := range t.database[name] {
			if e.goesOn() && e.By != "" && e.By != e.New.Label {
				t.report([]Event{e}, "%q changed the term of token %d, which is that of %q", e.By, e.New.Token, e.New.Label)
			}
		}
	}
}
