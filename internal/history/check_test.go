package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold-go/leasehold/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCheck_GoodHistory has a little of everything that is allowed, at the edges: a term that begins in the microsecond in
// which another ends, a renewal whose statement arrived in time and wrote late, a write by a holder who has expired but was
// not followed, trust to the very expiry.
func TestCheck_GoodHistory(t *testing.T) {
	require.Empty(t, history.Check(good().events))
	require.Empty(t, history.Check(nil))
}

// TestCheck_FindsEachFault changes one thing in the good history at a time.
func TestCheck_FindsEachFault(t *testing.T) {
	for _, c := range []struct {
		fault string
		rule  string
		text  string
		bad   func(*story)
	}{
		{"the same token twice", history.RuleTokensRise, "token 2 was granted after 2", func(s *story) {
			s.release("a", 2, "c2", 5000)
			s.grant("a", 2, "c3", 6000, 7000)
		}},
		{"a lower token", history.RuleTokensRise, "token 1 was granted after 2", func(s *story) {
			s.release("a", 2, "c2", 5000)
			s.grant("a", 1, "c3", 6000, 7000)
		}},
		{"a lease that goes down", history.RuleTokensRise, "the lease's token went from 2 down to 1", func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(1, "c2", 3000, 3000, free), 6000, "operator")
		}},
		{"a fence that goes down", history.RuleTokensRise, "the fence went from 2 down to 1", func(s *story) {
			s.fence("a", 1)
		}},
		{"a grant before the expiry", history.RuleNoOverlap, "1 µs before the term of token 2", func(s *story) {
			s.grant("a", 3, "c3", 8999, 10000)
		}},
		{"a grant that ignores a renewal", history.RuleNoOverlap, "500 µs before the term of token 2", func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(2, "c2", 3000, 8000, 14000), 8000, "c2")
			s.grant("a", 3, "c3", 13500, 14500)
		}},
		{"a grant in the midst of an older long term", history.RuleNoOverlap, "before the term of token 2", func(s *story) {
			s.grant("a", 3, "c3", 4000, 5000)
			s.grant("a", 4, "c4", 6000, 7000)
		}},
		{"a write below the fence at its commit", history.RuleWritesInTurn, "committed when the fence was 2", func(s *story) {
			s.write("a", 1, 2, "late")
		}},
		{"a write after the fence was raised", history.RuleWritesInTurn, "committed after the fence was raised to 2", func(s *story) {
			s.write("a", 1, 1, "late")
		}},
		{"a write after a grant that did not fence", history.RuleWritesInTurn, "committed after 7 was granted", func(s *story) {
			s.grantOnly("b", 7, "c1", 3000, 9000)
			s.write("b", 6, 6, "late")
		}},
		{"a write after a newer write", history.RuleWritesInTurn, "committed after one with 5", func(s *story) {
			s.write("w", 5, 0, "w1")
			s.write("w", 4, 0, "w2")
		}},
		{"a grant without a fence", history.RuleGrantFences, "token 7 was granted and the fence stayed at 5", func(s *story) {
			s.grantOnly("b", 7, "c1", 3000, 9000)
		}},
		{"a grant that fences in another transaction", history.RuleGrantFences, "token 7 was granted", func(s *story) {
			s.grantOnly("b", 7, "c1", 3000, 9000)
			s.fence("b", 7)
		}},
		{"a renewal after the expiry", history.RuleNoRevival, "arrived 1 µs after its expiry", func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(2, "c2", 3000, 9001, 14000), 9001, "c2")
		}},
		{"a renewal after the release", history.RuleNoRevival, "renewed after its release", func(s *story) {
			s.release("a", 2, "c2", 5000)
			s.lease("a", row(2, "c2", 3000, 3000, free), row(2, "c2", 3000, 5500, 11500), 5500, "c2")
		}},
		{"a renewal by another", history.RuleOwnRows, `"c1" changed the term of token 2`, func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(2, "c2", 3000, 5000, 11000), 5000, "c1")
		}},
		{"a release by another", history.RuleOwnRows, `"c1" changed the term of token 2`, func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(2, "c2", 3000, 3000, free), 5000, "c1")
		}},
		{"trust beyond the expiry", history.RuleTrust, "trusts token 2 for 1 µs longer", func(s *story) {
			s.trusts("a", 2, "c2", 4000, 5001)
		}},
		{"trust that counts on a later renewal", history.RuleTrust, "trusts token 2 for 1000 µs longer", func(s *story) {
			s.lease("a", row(2, "c2", 3000, 3000, 9000), row(2, "c2", 3000, 8000, 14000), 8000, "c2")
			s.trusts("a", 2, "c2", 4000, 6000)
		}},
		{"trust without any term", history.RuleTrust, "trusts token 9", func(s *story) {
			s.trusts("a", 9, "c2", 4000, 1)
		}},
		{"trust after the next grant", history.RuleTrust, "although 3 was granted to \"c3\" 500 µs before", func(s *story) {
			s.release("a", 2, "c2", 5000)
			s.grant("a", 3, "c3", 5000, 9500)
			s.trusts("a", 2, "c2", 5500, 100)
		}},
		{"trust after the end", history.RuleTrust, "trusts token 1 again after its end", func(s *story) {
			s.trusts("a", 1, "c1", 2800, 100)
		}},
		{"clocks that were set", history.RuleTrust, "contradict each other", func(s *story) {
			s.events = append(s.events, history.Event{Kind: history.KindClock, Process: "p", From: 5000, To: 5010, At: 9000})
		}},
		{"a grant that is not there", history.RuleConfirmed, "which the database did not grant", func(s *story) {
			s.events = append(s.events, history.Event{Kind: history.KindGranted, Process: "p", Client: "c1", Name: "a", Token: 3})
		}},
		{"a grant of another's token", history.RuleConfirmed, `handed token 2, which was granted to "c2"`, func(s *story) {
			s.events = append(s.events, history.Event{Kind: history.KindGranted, Process: "p", Client: "c1", Name: "a", Token: 2})
		}},
		{"a confirmed write that is not there", history.RuleConfirmed, "was confirmed and is not there", func(s *story) {
			s.events = append(s.events, history.Event{Kind: history.KindWrote, Process: "p", Client: "c1", Name: "a", Token: 2, Write: "x"})
		}},
		{"a refused write that is there", history.RuleConfirmed, "was refused and is there", func(s *story) {
			s.events = append(s.events, history.Event{Kind: history.KindRefused, Process: "p", Client: "c1", Name: "a", Token: 1, Write: "w1"})
		}},
	} {
		t.Run(strings.ReplaceAll(c.fault, " ", "_"), func(t *testing.T) {
			s := good()
			c.bad(s)
			for _, v := range history.Check(s.events) {
				if v.Rule == c.rule && strings.Contains(v.Text, c.text) {
					return
				}
			}
			require.Fail(t, "not found", "%s: found only %v", c.rule, history.Check(s.events))
		})
	}
}

// free is an expiry that is NULL.
const free = 0

// A story is a history by hand. The process's clock is 100,000 µs behind the database's, known to 10 µs.
type story struct {
	seq, xid int64
	events   []history.Event
}

func good() *story {
	s := &story{}
	for _, at := range []int64{0, 9000} {
		s.events = append(s.events, history.Event{Kind: history.KindClock, Process: "p", From: at, To: at + 10, At: base + at + 5})
	}
	s.grant("a", 1, "c1", 1000, 2000)
	s.process(history.KindGranted, "a", 1, "c1", 1050, 900)
	s.write("a", 1, 1, "w1")
	s.process(history.KindWrote, "a", 1, "c1", 1100, 0)
	s.lease("a", row(1, "c1", 1000, 1000, 2000), row(1, "c1", 1000, 1500, 2500), 1500, "c1")
	s.trusts("a", 1, "c1", 1600, 900)
	// Arrives before the expiry at 2500, writes after it.
	late := s.lease("a", row(1, "c1", 1000, 1500, 2500), row(1, "c1", 1000, 2501, 3000), 2499, "c1")
	s.events[late].At = base + 2501
	s.process(history.KindEnded, "a", 1, "c1", 2500, 0)
	s.write("a", 1, 1, "w2")
	s.grant("a", 2, "c2", 3000, 9000)
	s.process(history.KindRefused, "a", 1, "c1", 3100, 0)
	s.write("a", 2, 2, "w3")
	s.trusts("a", 2, "c2", 4000, 5000)
	s.grant("b", 1, "c1", 1000, 3000)
	s.release("b", 1, "c1", 1500)
	s.release("b", 1, "c1", 1500)
	s.grant("b", 5, "c2", 1500, 2000)
	s.events = append(s.events, history.Event{Kind: history.KindFault, Process: "p", Text: "nothing"})
	return s
}

const base = 100_000

func row(token int64, label string, acquired, renewed, expires int64) *history.Row {
	r := &history.Row{Token: token, Holder: label, Label: label, Acquired: base + acquired, Renewed: base + renewed}
	if expires != free {
		expires += base
		r.Expires = &expires
	}
	return r
}

func (s *story) add(e history.Event) int {
	s.seq++
	e.Seq = s.seq
	if e.Xid == 0 {
		s.xid++
		e.Xid = s.xid
	}
	s.events = append(s.events, e)
	return len(s.events) - 1
}

// lease adds a change of a row by a statement that arrives and writes at the given time.
func (s *story) lease(name string, before, after *history.Row, at int64, by string) int {
	return s.add(history.Event{Kind: history.KindLease, Name: name, Old: before, New: after, At: base + at, Started: base + at, By: by})
}

func (s *story) grant(name string, token int64, label string, from, to int64) {
	s.grantOnly(name, token, label, from, to)
	s.add(history.Event{Kind: history.KindFence, Name: name, Token: token, Xid: s.xid})
}

func (s *story) grantOnly(name string, token int64, label string, from, to int64) {
	s.lease(name, nil, row(token, label, from, from, to), from, label)
}

func (s *story) release(name string, token int64, label string, at int64) {
	s.lease(name, row(token, label, 0, 0, at+10), row(token, label, 0, 0, free), at, label)
}

func (s *story) fence(name string, token int64) {
	s.add(history.Event{Kind: history.KindFence, Name: name, Token: token})
}

func (s *story) write(name string, token, fence int64, id string) {
	s.add(history.Event{Kind: history.KindWrite, Name: name, Token: token, Fence: fence, Write: id})
}

// trusts adds an answer at the given time of the database's clock that certainly means trust until left later.
func (s *story) trusts(name string, token int64, client string, at, left int64) {
	s.process(history.KindTrusts, name, token, client, at, left)
}

func (s *story) process(kind history.Kind, name string, token int64, client string, at, left int64) {
	e := history.Event{Kind: kind, Process: "p", Client: client, Name: name, Token: token, From: at + 5, To: at + 6, Left: left}
	if kind == history.KindWrote {
		e.Write = "w1"
	}
	if kind == history.KindRefused {
		e.Write = "w9"
	}
	s.events = append(s.events, e)
}
