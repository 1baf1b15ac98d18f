package history

// confirmedIsThere: a token that a client was handed was granted to it in the database, and one that it was named as
// another's was granted by then; a write whose commit was confirmed is there, and of a refused one there is nothing; a confirmed
// release ended the term (invariants I9, I3).
//
// A crash of the server may forget a release, which does not wait for the disk, and nothing else. One that replaced the
// server by a standby that lagged behind may have forgotten the last commits, too. Whatever is forgotten, nothing that was
// committed later is there.
func confirmedIsThere(t *trial) {
	found, handed, given := t.recordedThings(), map[holding]Event{}, map[holding]bool{}
	for _, e := range t.noted {
		switch e.Kind {
		case KindStood:
			t.grantIsThere(e, found)
		case KindGranted:
			t.grantIsThere(e, found)
			if before, again := handed[holding{e.Name, e.Token}]; again {
				t.report([]Event{before, e}, "%q was handed token %d, which %q had been handed before", e.Client, e.Token, before.Client)
			}
			handed[holding{e.Name, e.Token}] = e
		case KindAnswer:
			if e.Token > 0 {
				t.grantIsThere(e, found)
			}
			if e.Seen > 0 {
				t.seenIsThere(e, found)
			}
		case KindReleased:
			// The first call decides, later ones repeat what it returned.
			if k := (holding{e.Name, e.Token}); e.says(ReleaseDone) && !given[k] {
				given[k] = true
				t.releaseIsThere(e)
			}
		case KindWrote:
			if _, written := found.writes[e.Write]; !written && !t.forgot(e, end, true) {
				t.report([]Event{e}, "the commit of %q with token %d was confirmed and is not there", e.Write, e.Token)
			}
		case KindRefused:
			if write, written := found.writes[e.Write]; written {
				t.report([]Event{e, write}, "%q with token %d was refused and is there", e.Write, e.Token)
			}
		}
	}
}

// recordedThings are what the database's record has, to look up.
type recordedThings struct {
	tokens map[holding]Event // the event that gave a row its token
	writes map[string]Event
}

func (t *trial) recordedThings() recordedThings {
	found := recordedThings{map[holding]Event{}, map[string]Event{}}
	for _, name := range t.names {
		for _, e := range t.database[name] {
			switch {
			case e.Grants() || e.Revokes():
				found.tokens[holding{name, e.New.Token}] = e
			case e.Kind == KindWrite:
				found.writes[e.Write] = e
			}
		}
	}
	return found
}

func (t *trial) grantIsThere(e Event, found recordedThings) {
	grant, there := found.tokens[holding{e.Name, e.Token}]
	switch {
	case !there && !t.forgot(e, end, true):
		t.report([]Event{e}, "%q was handed token %d, which the database did not grant", e.Client, e.Token)
	case there && grant.New.Label != e.Client:
		t.report([]Event{grant, e}, "%q was handed token %d, which was granted to %q", e.Client, e.Token, grant.New.Label)
	case there && e.Kind != KindGranted && earliest(t.written(grant)) > e.To:
		t.report([]Event{grant, e}, "%q was handed token %d before the database granted it", e.Client, e.Token)
	}
}

func (t *trial) seenIsThere(e Event, found recordedThings) {
	grant, there := found.tokens[holding{e.Name, e.Seen}]
	switch {
	case !there && len(t.database[e.Name]) > 0 && !t.forgot(e, end, true):
		t.report([]Event{e}, "%q was told that the holder has token %d, which the database did not grant", e.Client, e.Seen)
	case there && earliest(t.written(grant)) > e.To:
		t.report([]Event{grant, e}, "%q was told that the holder has token %d before the database granted it", e.Client, e.Seen)
	}
}

// releaseIsThere looks for what ended the term: its release, by whatever statement of its holder.
func (t *trial) releaseIsThere(e Event) {
	term := t.terms[holding{e.Name, e.Token}]
	if term == nil {
		return // That it is not there is said of the grant.
	}
	ended, until := term.released, int64(end)
	if ended == nil {
		ended = term.revoked
	}
	switch {
	case ended != nil && earliest(t.recorded(*ended)) <= e.To:
		return
	case ended != nil:
		until = latest(t.recorded(*ended))
	case term.next != nil:
		until = latest(t.written(*term.next))
	}
	if t.forgot(e, until, false) {
		return
	}
	t.report([]Event{term.granted, e}, "the release of token %d was confirmed to %q and is not there", e.Token, e.Client)
}
