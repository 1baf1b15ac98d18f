package history

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// patience bounds the search for an order, for each name. What is not decided by then is reported: it is no pass.
const patience = 30 * time.Second

// linearizable: for each name there is one order of all that clients were told and did, each at a time within its own window,
// in which every answer is right: the lock is one register (Herlihy and Wing 1990; checked by porcupine). Windows are the
// clients' own. The database's record is asked only for what no client can tell: grants and releases whose answers
// were lost, and how early a term may have run out.
func linearizable(t *trial) {
	for _, l := range t.locks() {
		t.heldAfterExpiry(l)
		for _, p := range t.parts(t.moves(l)) {
			model := registerModel(p.first, l.expiry)
			switch check(model, p.moves, patience) {
			case porcupine.Illegal:
				t.explain(l.name, model, p.moves)
			case porcupine.Unknown:
				t.reportName(l.name, nil, "not decided: no order of %d moves was found or excluded within %v", len(p.moves), patience)
			}
		}
	}
}

func check(model porcupine.Model, moves []move, limit time.Duration) porcupine.CheckResult {
	operations := make([]porcupine.Operation, len(moves))
	for i, m := range moves {
		operations[i] = porcupine.Operation{Input: m, Call: m.from, Return: m.to}
	}
	return porcupine.CheckOperationsTimeout(model, operations, limit)
}

// A part is a piece of a name's history that the database remembers as one.
type part struct {
	first register
	moves []move
}

// parts cuts the moves where the server was replaced by one that may have forgotten commits. What was under way then may have
// taken effect before or after, or not at all. After it, tokens rise above all that were handed out before, and nothing else
// is known.
func (t *trial) parts(moves []move) []part {
	list := []part{{moves: moves}}
	for _, c := range t.crashes {
		if !c.lossy() {
			continue
		}
		last := &list[len(list)-1]
		next := part{first: register{open: true, floor: last.first.floor}}
		var before []move
		for _, m := range last.moves {
			switch {
			case m.to < c.From:
				before = append(before, m)
				if m.kind == granted {
					next.first.floor = max(next.first.floor, m.token)
				}
			case m.from > c.To:
				next.moves = append(next.moves, m)
			case m.changes():
				m.pending = true
				m.to = end
				before = append(before, m)
				m.from = max(m.from, c.From)
				next.moves = append(next.moves, m)
			}
		}
		last.moves = before
		list = append(list, next)
	}
	return list
}

// heldAfterExpiry: nobody is told that a term holds which has certainly run out on the database's clock.
func (t *trial) heldAfterExpiry(l *lock) {
	for _, e := range l.noted {
		if e.Kind != KindAnswer || e.Token > 0 || e.Seen == 0 {
			continue
		}
		term := t.terms[holding{l.name, e.Seen}]
		if term == nil || !t.clock.Known() || t.crashed(beginning, e.To, true) {
			continue
		}
		if over := t.expiredFrom(term); e.From > over {
			t.report([]Event{term.versions[len(term.versions)-1], e},
				"%q was told that the holder has token %d %d µs after that had run out", e.Client, e.Seen, e.From-over)
		}
	}
}

// explain looks for the first move at which no order fits any more, and reports it with the last changes before it.
func (t *trial) explain(name string, model porcupine.Model, moves []move) {
	ends := slices.Clone(moves)
	slices.SortStableFunc(ends, func(a, b move) int { return cmp.Compare(a.to, b.to) })
	first := sort.Search(len(ends)-1, func(i int) bool {
		return check(model, until(moves, ends[i].to), patience/4) == porcupine.Illegal
	})
	culprit := ends[first]
	changes := slices.DeleteFunc(until(moves, culprit.to), func(m move) bool { return !m.changes() || m == culprit })
	slices.SortStableFunc(changes, func(a, b move) int { return cmp.Compare(a.from, b.from) })
	changes = changes[max(0, len(changes)-4):]
	text := ""
	var events []Event
	for _, m := range changes {
		text += m.String() + "; "
		events = append(events, m.event)
	}
	t.report(append(events, culprit.event), "of %d moves no order fits: %sand then %s", len(moves), text, culprit)
}

// until cuts a history off. A change that was under way then may have happened or not; what was only looked at is left out.
func until(moves []move, at int64) []move {
	var list []move
	for _, m := range moves {
		switch {
		case m.to <= at:
			list = append(list, m)
		case m.from <= at && m.changes():
			m.pending, m.to = true, end
			list = append(list, m)
		}
	}
	return list
}
