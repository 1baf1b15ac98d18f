package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A story is a history by hand. Times are those of the machine's clock, in units of a microsecond or a millisecond. The
// database's clock is base ahead until it is set, and known to 10 units.
type story struct {
	unit     int64 // in microseconds
	seq, xid int64
	ahead    int64 // how far the database's clock was set
	rows     map[string]*history.Row
	events   []history.Event
}

const (
	base = 100_000
	free = 0 // an expiry that is NULL
)

func begin() *story {
	return beginIn(1)
}

func beginIn(unit int64) *story {
	s := &story{unit: unit, rows: map[string]*history.Row{}}
	s.clock(0)
	return s
}

// clock samples the database's clock.
func (s *story) clock(at int64) {
	s.events = append(s.events, history.Event{
		Kind: history.KindClock, Process: "run", From: (at - 5) * s.unit, To: (at + 5) * s.unit, At: s.now(at),
	})
}

// set sets the database's clock, with a sample on either side.
func (s *story) set(at, by int64) {
	s.clock(at - 20)
	s.note(history.Event{Kind: history.KindStep, Process: "run", From: (at - 2) * s.unit, To: (at + 2) * s.unit, Left: by * s.unit})
	s.ahead += by
	s.clock(at + 20)
}

// now is the database's clock.
func (s *story) now(at int64) int64 { return (base + s.ahead + at) * s.unit }

func (s *story) row(token int64, label string, acquired, renewed, expires int64) *history.Row {
	r := &history.Row{Token: token, Holder: label, Label: label, Acquired: s.now(acquired), Renewed: s.now(renewed)}
	if expires != free {
		expires = s.now(expires)
		r.Expires = &expires
	}
	return r
}

// add adds what the database records.
func (s *story) add(e history.Event) *history.Event {
	s.seq++
	e.Seq = s.seq
	if e.Xid == 0 {
		s.xid++
		e.Xid = s.xid
	}
	s.events = append(s.events, e)
	return &s.events[len(s.events)-1]
}

// change adds a change of a row by a statement that arrives and writes at the given time.
func (s *story) change(name string, after *history.Row, at int64, by string) *history.Event {
	e := history.Event{Kind: history.KindLease, Name: name, Old: s.rows[name], New: after, At: s.now(at), Started: s.now(at), By: by}
	if s.unit > 1 { // The machine's clock as it is recorded is too coarse for microseconds.
		e.Up = at * s.unit / 10_000 * 10_000
	}
	s.rows[name] = after
	return s.add(e)
}

func (s *story) grant(name string, token int64, label string, from, to int64) *history.Event {
	seq := len(s.events)
	s.grantOnly(name, token, label, from, to)
	s.add(history.Event{Kind: history.KindFence, Name: name, Token: token, Xid: s.xid, At: s.now(from)})
	return &s.events[seq]
}

func (s *story) grantOnly(name string, token int64, label string, from, to int64) *history.Event {
	return s.change(name, s.row(token, label, from, from, to), from, label)
}

func (s *story) renew(name string, at, expires int64, by string) *history.Event {
	after := *s.rows[name]
	until := s.now(expires)
	after.Renewed, after.Expires = s.now(at), &until
	return s.change(name, &after, at, by)
}

func (s *story) release(name string, at int64, by string) *history.Event {
	after := *s.rows[name]
	after.Expires = nil
	return s.change(name, &after, at, by)
}

// revoke gives the row a higher token, as an operator does.
func (s *story) revoke(name string, token, at int64) *history.Event {
	after := *s.rows[name]
	after.Token = token
	e := s.change(name, &after, at, "operator")
	s.add(history.Event{Kind: history.KindFence, Name: name, Token: token, Xid: s.xid, At: s.now(at)})
	return e
}

func (s *story) fence(name string, token int64) *history.Event {
	return s.add(history.Event{Kind: history.KindFence, Name: name, Token: token})
}

func (s *story) write(name string, token, fence int64, id string) *history.Event {
	return s.add(history.Event{Kind: history.KindWrite, Name: name, Token: token, Fence: fence, Write: id})
}

// note adds what a process notes.
func (s *story) note(e history.Event) *history.Event {
	s.events = append(s.events, e)
	return &s.events[len(s.events)-1]
}

// trusts adds an answer at the given time that certainly means trust until left later.
func (s *story) trusts(name string, token int64, client string, at, left int64) {
	s.client(history.KindTrusts, name, token, client, at, at+1).Left = left * s.unit
}

func (s *story) client(kind history.Kind, name string, token int64, client string, from, to int64) *history.Event {
	return s.note(history.Event{Kind: kind, Process: client, Client: client, Name: name, Token: token, From: from * s.unit, To: to * s.unit})
}

// answer adds what an acquire returned: the token that was granted or that was seen.
func (s *story) answer(text, name string, token int64, client string, from, to int64) *history.Event {
	e := s.client(history.KindAnswer, name, 0, client, from, to)
	e.Text = text
	if text == history.AnswerGranted {
		e.Token = token
	} else {
		e.Seen = token
	}
	return e
}

func (s *story) released(name string, token int64, client string, from, to int64) *history.Event {
	e := s.client(history.KindReleased, name, token, client, from, to)
	e.Text = history.ReleaseDone
	return e
}

// found requires a violation of the rule whose text has the words in it; none requires that there is no violation at all.
func found(t *testing.T, events []history.Event, rule, text string) {
	t.Helper()
	violations := history.Check(events)
	for _, v := range violations {
		if v.Rule == rule && contains(v.Text, text) {
			return
		}
	}
	require.Fail(t, "not found", "%s: %s\nfound only %v", rule, text, violations)
}

func none(t *testing.T, events []history.Event) {
	t.Helper()
	require.Empty(t, history.Check(events))
}
