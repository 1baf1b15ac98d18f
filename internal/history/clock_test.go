package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

// steady is a holder whose clock was not set so far: token 1 of c1, granted at 1000 ms, until 5000 ms.
func steady() *story {
	s := beginIn(1000)
	s.grant("a", 1, "c1", 1000, 5000)
	s.answer(history.AnswerGranted, "a", 1, "c1", 990, 1010)
	return s
}

// TestCheck_ClockSteps: what is a fault and what is none when the database's clock is set. The rule is empty where there is none.
func TestCheck_ClockSteps(t *testing.T) {
	for _, c := range []struct {
		what string
		rule string
		text string
		bad  func(*story)
	}{
		{"forwards: the next term begins while the holder trusts", "", "", func(s *story) {
			s.set(2000, 3000)
			s.grant("a", 2, "c2", 2100, 6000)
			s.answer(history.AnswerGranted, "a", 2, "c2", 2090, 2110)
			s.trusts("a", 1, "c1", 2500, 2495)
		}},
		{"forwards: trust beyond what the expiry meant when it was written", history.RuleTrust, "for 6000 µs longer", func(s *story) {
			s.set(2000, 3000)
			s.trusts("a", 1, "c1", 2500, 2511)
		}},
		{"forwards: a renewal after the step is measured by the new clock", history.RuleTrust, "longer than the database", func(s *story) {
			s.set(2000, 1000)
			s.renew("a", 2100, 6100, "c1")
			s.trusts("a", 1, "c1", 2500, 4500)
		}},
		{"forwards: renewed after the step, and granted in the midst", history.RuleNoOverlap, "before the term of token 1", func(s *story) {
			s.set(2000, 1000)
			s.renew("a", 2100, 6100, "c1")
			s.grant("a", 2, "c2", 2500, 6000)
		}},
		{"forwards: the step is no excuse for what came before", history.RuleTrust, "although 2 was granted", func(s *story) {
			s.release("a", 1500, "c1")
			s.grant("a", 2, "c2", 1600, 6000)
			s.trusts("a", 1, "c1", 1700, 100)
			s.set(2000, 3000)
		}},
		{"forwards: too small a step is no excuse", history.RuleTrust, "although 2 was granted", func(s *story) {
			s.set(2000, 100)
			s.release("a", 2100, "c1")
			s.grant("a", 2, "c2", 2200, 6000)
			s.trusts("a", 1, "c1", 2300, 100)
		}},
		{"forwards: granted before the row had expired on the new clock", history.RuleNoOverlap, "1000 µs before the term of token 1", func(s *story) {
			s.set(2000, 2000)
			s.grant("a", 2, "c2", 2999, 6000)
		}},
		{"forwards: a stale write", history.RuleWritesInTurn, "committed after 2 was granted", func(s *story) {
			s.set(2000, 3000)
			s.grantOnly("a", 2, "c2", 2100, 6000)
			s.write("a", 1, 1, "late")
		}},
		{"forwards: a renewal of what expired by the step", history.RuleNoRevival, "after its expiry", func(s *story) {
			s.set(2000, 3001)
			s.renew("a", 2100, 6100, "c1")
		}},
		{"forwards: the same token again", history.RuleTokensRise, "token 1 was granted after 1", func(s *story) {
			s.set(2000, 3000)
			s.grant("a", 1, "c2", 2100, 6000)
		}},
		{"forwards: answered that it is held, before the step reached it", "", "", func(s *story) {
			s.set(2000, 2000)
			s.answer(history.AnswerHeld, "a", 1, "c2", 2900, 2950)
		}},
		{"forwards: answered that it is held, after the step had ended it", history.RuleLinearizable, "had run out", func(s *story) {
			s.set(2000, 2000)
			s.answer(history.AnswerHeld, "a", 1, "c2", 3100, 3150)
		}},
		{"back: the term lasts longer", "", "", func(s *story) {
			s.set(2000, -3000)
			s.trusts("a", 1, "c1", 4000, 995)
			s.answer(history.AnswerHeld, "a", 1, "c2", 7500, 7600)
			s.grant("a", 2, "c2", 8000, 9000)
			s.answer(history.AnswerGranted, "a", 2, "c2", 7700, 8100)
		}},
		{"back: trust is not longer for it", history.RuleTrust, "longer than the database", func(s *story) {
			s.set(2000, -3000)
			s.trusts("a", 1, "c1", 4000, 1100)
		}},
		{"back: granted on the old clock", history.RuleNoOverlap, "before the term of token 1", func(s *story) {
			s.set(2000, -3000)
			s.grant("a", 2, "c2", 5000, 9000)
			s.answer(history.AnswerGranted, "a", 2, "c2", 4990, 5010)
		}},
		{"back: expired, not taken over, and alive again", "", "", func(s *story) {
			s.clock(5500)
			s.set(6000, -3000)
			s.renew("a", 6100, 9100, "c1")
			s.trusts("a", 1, "c1", 6200, 2890)
		}},
		{"back: arrived after the expiry, and looked after the step", "", "", func(s *story) {
			arrived := s.now(5995)
			s.set(6000, -3000)
			s.renew("a", 6100, 9100, "c1").Started = arrived
		}},
		{"back: arrived too late even for the step", history.RuleNoRevival, "after its expiry", func(s *story) {
			arrived := s.now(8995)
			s.set(9000, -3000)
			s.renew("a", 9010, 12100, "c1").Started = arrived
		}},
		{"back: granted in the window of the step, on the clock before it", "", "", func(s *story) {
			s.set(5010, -3000)
			s.events = s.events[:len(s.events)-1] // The sample after it comes later.
			e := s.grant("a", 2, "c2", 5010, 9000)
			until := s.now(12_000)
			e.At, e.Started, e.New.Acquired, e.New.Renewed, e.New.Expires = e.At+3_000_000, e.Started+3_000_000, e.New.Acquired+3_000_000, e.New.Renewed+3_000_000, &until
			s.clock(5030)
		}},
		{"back: granted long before the step", history.RuleNoOverlap, "1000000 µs before the term of token 1", func(s *story) {
			s.grant("a", 2, "c2", 4000, 9000)
			s.clock(4500)
			s.set(6000, -3000)
		}},
		{"there and back: too short for a sample", "", "", func(s *story) {
			s.clock(1990)
			s.note(history.Event{Kind: history.KindStep, From: 2000_000, To: 2002_000, Left: 4000_000})
			s.ahead = 4000
			s.grant("a", 2, "c2", 2010, 2500)
			s.answer(history.AnswerGranted, "a", 2, "c2", 2005, 2015)
			s.note(history.Event{Kind: history.KindStep, From: 2020_000, To: 2022_000, Left: -4000_000})
			s.ahead = 0
			s.clock(2100)
			s.trusts("a", 1, "c1", 2200, 2790)
		}},
		{"not noted: found in the samples", "", "", func(s *story) {
			s.clock(1990)
			s.ahead += 3000
			s.clock(2010)
			s.grant("a", 2, "c2", 2100, 6000)
			s.trusts("a", 1, "c1", 2500, 2495)
		}},
		{"not noted: no excuse beyond it", history.RuleTrust, "longer than the database", func(s *story) {
			s.clock(1990)
			s.ahead += 3000
			s.clock(2010)
			s.trusts("a", 1, "c1", 2500, 2600)
		}},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			s := steady()
			c.bad(s)
			s.clock(20_000)
			if c.rule == "" {
				none(t, s.events)
				return
			}
			found(t, s.events, c.rule, c.text)
		})
	}
}

// TestClock_Machine: a time of the database's clock is one of the machine's, two where the clock was set back over it.
func TestClock_Machine(t *testing.T) {
	s := begin()
	s.clock(1000)
	s.set(2000, -500)
	s.clock(3000)
	clock := history.NewClock(s.events)
	require.True(t, clock.Known())
	from, to := clock.Machine(base + 1000)
	require.Equal(t, []int64{995, 1005}, []int64{from, to})
	from, to = clock.Machine(base + 1600) // Before the step, and 500 later again.
	require.Equal(t, []int64{1595, 2105}, []int64{from, to})
	from, to = clock.Machine(base + 2500)
	require.Equal(t, []int64{2995, 3005}, []int64{from, to})

	require.False(t, history.NewClock(nil).Known())
}

// TestClock_WideSamples: a sample taken over a stopped server bounds little and does no harm, before or after a step that
// nobody noted.
func TestClock_WideSamples(t *testing.T) {
	at := func(from, to, at int64) history.Event {
		return history.Event{Kind: history.KindClock, From: from, To: to, At: at}
	}
	clock := history.NewClock([]history.Event{
		at(0, 10, base+5), at(1000, 9000, base+5000), at(9100, 9110, base+4105), at(9200, 9210, base+4205),
	})
	from, to := clock.Machine(base + 5)
	require.Equal(t, []int64{0, 5010}, []int64{from, to}, "before the step, which may have been at any time since, or after it")
	from, to = clock.Machine(base + 4605)
	require.Equal(t, []int64{4600, 9610}, []int64{from, to})
}
