package history

// recordIsWhole: each change of a lease starts from the row that the change before it left, later on the machine's clock. This
// judges the record, not the library: a history with a gap would hide what happened in it.
func recordIsWhole(t *trial) {
	seen := map[int64]Event{}
	for _, name := range t.names {
		var last *Event
		for _, e := range t.database[name] {
			if before, found := seen[e.Seq]; found {
				t.report([]Event{before, e}, "two events have the number %d", e.Seq)
			}
			seen[e.Seq] = e
			if e.Kind != KindLease {
				continue
			}
			if last != nil {
				t.follows(*last, e)
			}
			last = &e
		}
	}
}

// follows compares an event with the one before it on the same row.
func (t *trial) follows(last, e Event) {
	if !last.New.equal(e.Old) {
		t.report([]Event{last, e}, "event %d changed another version of the row than event %d left: something between them is missing",
			e.Seq, last.Seq)
	}
	if latest(t.clock.moments(e.At, beginning, e.until())) < earliest(t.clock.moments(last.At, beginning, end)) {
		t.report([]Event{last, e}, "event %d was recorded before event %d", e.Seq, last.Seq)
	}
	if e.Up > 0 && last.Up > e.Up {
		t.report([]Event{last, e}, "event %d was recorded %d µs before event %d", e.Seq, last.Up-e.Up, last.Seq)
	}
}
