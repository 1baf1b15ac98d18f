package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold-go/leasehold/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func contains(text, part string) bool { return strings.Contains(text, part) }

// good has a little of everything that is allowed, at the edges: a term that begins in the microsecond in which another
// ends, a renewal whose statement arrived in time and wrote late, a write by a holder who has expired but was not
// followed, trust to the very expiry, a prune, an operator.
func good() *story {
	s := begin()
	s.grant("a", 1, "c1", 1000, 2000)
	s.answer(history.AnswerGranted, "a", 1, "c1", 900, 1040)
	s.client(history.KindGranted, "a", 1, "c1", 1050, 1051).Left = 945
	s.write("a", 1, 1, "w1")
	s.client(history.KindWrote, "a", 1, "c1", 1060, 1100).Write = "w1"
	s.renew("a", 1500, 2500, "c1")
	s.trusts("a", 1, "c1", 1600, 895)
	s.answer(history.AnswerHeld, "a", 1, "c2", 1700, 1800)
	// Arrives before the expiry at 2500, writes after it.
	late := s.renew("a", 2501, 3000, "c1")
	late.Started = s.now(2499)
	s.client(history.KindEnded, "a", 1, "c1", 2500, 2501)
	s.write("a", 1, 1, "w2")
	s.grant("a", 2, "c2", 3000, 9000)
	s.answer(history.AnswerGranted, "a", 2, "c2", 2990, 3050)
	s.client(history.KindRefused, "a", 1, "c1", 3100, 3200).Write = "w9"
	s.write("a", 2, 2, "w3")
	s.client(history.KindUnknown, "a", 2, "c2", 3100, 3200).Write = "w3"
	s.trusts("a", 2, "c2", 4000, 4995)
	s.grant("b", 1, "c1", 1000, 3000)
	s.release("b", 1500, "c1")
	s.released("b", 1, "c1", 1490, 1510)
	s.released("b", 1, "c1", 1600, 1601)
	s.grant("b", 5, "c2", 1500, 2000)
	s.revoke("b", 7, 1600)
	s.trusts("b", 5, "c2", 1700, 200)
	s.change("b", nil, 2000, "c1")
	s.grant("b", 8, "c2", 2100, 9000)
	s.note(history.Event{Kind: history.KindFault, Process: "run", Text: "nothing"})
	s.clock(9000)
	return s
}

func TestCheck_GoodHistory(t *testing.T) {
	none(t, good().events)
	none(t, nil)
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
			s.release("a", 5000, "c2")
			s.grant("a", 2, "c3", 6000, 7000)
		}},
		{"a lower token", history.RuleTokensRise, "token 1 was granted after 2", func(s *story) {
			s.release("a", 5000, "c2")
			s.grant("a", 1, "c3", 6000, 7000)
		}},
		{"a lease that goes down", history.RuleTokensRise, "the lease's token went from 2 down to 1", func(s *story) {
			s.revoke("a", 1, 6000)
		}},
		{"a fence that goes down", history.RuleTokensRise, "the fence went from 2 down to 1", func(s *story) {
			s.fence("a", 1)
		}},
		{"a grant before the expiry", history.RuleNoOverlap, "1 µs before the term of token 2", func(s *story) {
			s.grant("a", 3, "c3", 8999, 10000)
		}},
		{"a grant that ignores a renewal", history.RuleNoOverlap, "500 µs before the term of token 2", func(s *story) {
			s.renew("a", 8000, 14000, "c2")
			s.grant("a", 3, "c3", 13500, 14500)
		}},
		{"a grant over a row that it did not look at", history.RuleNoOverlap, "before the term of token 2", func(s *story) {
			delete(s.rows, "a")
			s.grant("a", 3, "c3", 4000, 5000)
		}},
		{"a write below the fence at its commit", history.RuleWritesInTurn, "committed when the fence was 2", func(s *story) {
			s.write("a", 1, 2, "late")
		}},
		{"a write after the fence was raised", history.RuleWritesInTurn, "committed after the fence was raised to 2", func(s *story) {
			s.write("a", 1, 1, "late")
		}},
		{"a write after a grant that did not fence", history.RuleWritesInTurn, "committed after 10 was granted", func(s *story) {
			s.grantOnly("b", 10, "c1", 9000, 9900)
			s.write("b", 8, 8, "late")
		}},
		{"a write after a newer write", history.RuleWritesInTurn, "committed after one with 5", func(s *story) {
			s.write("w", 5, 0, "w1")
			s.write("w", 4, 0, "w2")
		}},
		{"a write with a token from nowhere", history.RuleWritesInTurn, "which was never granted", func(s *story) {
			s.write("a", 3, 2, "early")
		}},
		{"a grant without a fence", history.RuleGrantFences, "token 10 was granted and the fence stayed at 8", func(s *story) {
			s.grantOnly("b", 10, "c1", 9000, 9900)
		}},
		{"a grant that fences in another transaction", history.RuleGrantFences, "token 10 was granted", func(s *story) {
			s.grantOnly("b", 10, "c1", 9000, 9900)
			s.fence("b", 10)
		}},
		{"a renewal after the expiry", history.RuleNoRevival, "arrived 1 µs after its expiry", func(s *story) {
			s.renew("a", 9001, 14000, "c2")
		}},
		{"a renewal after the release", history.RuleNoRevival, "renewed after its release", func(s *story) {
			s.release("a", 5000, "c2")
			s.renew("a", 5500, 11500, "c2")
		}},
		{"a renewal after an operator's revocation", history.RuleNoRevival, "after an operator had given it token 4", func(s *story) {
			s.revoke("a", 4, 5000)
			s.renew("a", 5500, 11500, "c2")
		}},
		{"a renewal by another", history.RuleOwnRows, `"c1" changed the term of token 2`, func(s *story) {
			s.renew("a", 5000, 11000, "c1")
		}},
		{"a release by another", history.RuleOwnRows, `"c1" changed the term of token 2`, func(s *story) {
			s.release("a", 5000, "c1")
		}},
		{"a grant by another", history.RuleOwnRows, `"c3" was granted token 3 by a session of "c4"`, func(s *story) {
			s.grant("a", 3, "c3", 9000, 9500).By = "c4"
		}},
		{"renewals of what nobody was handed", history.RuleHanded, "was renewed 3 times after its call had returned", func(s *story) {
			s.grant("c", 1, "c1", 1000, 2000)
			s.answer(history.AnswerUnknown, "c", 0, "c1", 900, 1100)
			s.renew("c", 1050, 2050, "c1")
			s.renew("c", 1200, 2200, "c1")
			s.renew("c", 1300, 2300, "c1")
			s.renew("c", 1400, 2400, "c1")
		}},
		{"trust beyond the expiry", history.RuleTrust, "trusts token 2 for 1 µs longer", func(s *story) {
			s.trusts("a", 2, "c2", 4000, 5006)
		}},
		{"trust within the margin", history.RuleTrust, "to within 5 µs of its expiry, and its margin is 10 µs", func(s *story) {
			s.trusts("a", 2, "c2", 4000, 5000)
			s.events[len(s.events)-1].Margin = 10
		}},
		{"trust with no time left", history.RuleTrust, "although 3 was granted", func(s *story) {
			s.release("a", 5000, "c2")
			s.grant("a", 3, "c3", 5000, 9500)
			s.trusts("a", 2, "c2", 5500, 0)
		}},
		{"trust that counts on a later renewal", history.RuleTrust, "trusts token 2 for 995 µs longer", func(s *story) {
			s.renew("a", 8000, 14000, "c2")
			s.trusts("a", 2, "c2", 4000, 6000)
		}},
		{"trust without any term", history.RuleTrust, "trusts token 9", func(s *story) {
			s.trusts("a", 9, "c2", 4000, 1)
		}},
		{"trust after the next grant", history.RuleTrust, "although 3 was granted to \"c3\" 495 µs before", func(s *story) {
			s.release("a", 5000, "c2")
			s.grant("a", 3, "c3", 5000, 9500)
			s.trusts("a", 2, "c2", 5500, 100)
		}},
		{"trust after the end", history.RuleTrust, "trusts token 1 again after its end", func(s *story) {
			s.trusts("a", 1, "c1", 2800, 100)
		}},
		{"a grant that is not there", history.RuleConfirmed, "which the database did not grant", func(s *story) {
			s.client(history.KindGranted, "a", 3, "c1", 4000, 4001)
		}},
		{"an answer that is not there", history.RuleConfirmed, "which the database did not grant", func(s *story) {
			s.answer(history.AnswerGranted, "a", 3, "c1", 4000, 4001)
		}},
		{"a grant before it was there", history.RuleConfirmed, "before the database granted it", func(s *story) {
			s.answer(history.AnswerGranted, "b", 8, "c2", 1900, 2094)
		}},
		{"a grant of another's token", history.RuleConfirmed, `handed token 2, which was granted to "c2"`, func(s *story) {
			s.client(history.KindGranted, "a", 2, "c1", 4000, 4001)
		}},
		{"one token handed out twice", history.RuleConfirmed, `which "c1" had been handed before`, func(s *story) {
			s.client(history.KindGranted, "a", 1, "c1", 1200, 1201)
		}},
		{"a holder that nobody was", history.RuleConfirmed, "told that the holder has token 3, which the database did not grant", func(s *story) {
			s.answer(history.AnswerHeld, "a", 3, "c1", 4000, 4001)
		}},
		{"a holder that was not yet", history.RuleConfirmed, "told that the holder has token 2 before the database granted it", func(s *story) {
			s.answer(history.AnswerHeld, "a", 2, "c1", 2000, 2001)
		}},
		{"a release that is not there", history.RuleConfirmed, "the release of token 2 was confirmed", func(s *story) {
			s.released("a", 2, "c2", 4000, 4100)
		}},
		{"a release that came later", history.RuleConfirmed, "the release of token 2 was confirmed", func(s *story) {
			s.released("a", 2, "c2", 4000, 4100)
			s.release("a", 4106, "c2")
		}},
		{"a release that no crash can have forgotten", history.RuleConfirmed, "the release of token 2 was confirmed", func(s *story) {
			s.released("a", 2, "c2", 4000, 4100)
			s.grant("c", 1, "c1", 4200, 5000) // Was committed later, and is there.
			s.note(history.Event{Kind: history.KindCrash, From: 4300, To: 4400})
		}},
		{"a grant that no failover can have forgotten", history.RuleConfirmed, "which the database did not grant", func(s *story) {
			s.answer(history.AnswerGranted, "a", 3, "c3", 9000, 9100)
			s.grant("c", 1, "c1", 9200, 9900)
			s.note(history.Event{Kind: history.KindCrash, Text: history.CrashLossy, From: 9300, To: 9400})
		}},
		{"a confirmed write that is not there", history.RuleConfirmed, "was confirmed and is not there", func(s *story) {
			s.client(history.KindWrote, "a", 2, "c1", 3500, 3600).Write = "x"
		}},
		{"a refused write that is there", history.RuleConfirmed, "was refused and is there", func(s *story) {
			s.client(history.KindRefused, "a", 1, "c1", 1500, 1600).Write = "w1"
		}},
		{"a change that is missing", history.RuleRecord, "something between them is missing", func(s *story) {
			row := *s.rows["a"]
			row.Renewed++
			s.rows["a"] = &row
			s.renew("a", 5000, 11000, "c2")
		}},
		{"a change out of order", history.RuleRecord, "was recorded before event", func(s *story) {
			s.renew("a", 5000, 11000, "c2")
			s.renew("a", 4989, 11000, "c2")
		}},
		{"a number twice", history.RuleRecord, "two events have the number", func(s *story) {
			s.renew("a", 5000, 11000, "c2").Seq--
		}},
	} {
		t.Run(strings.ReplaceAll(c.fault, " ", "_"), func(t *testing.T) {
			s := good()
			c.bad(s)
			found(t, s.events, c.rule, c.text)
		})
	}
}

// TestCheck_AllowsWhatIsNoFault adds one thing to the good history at a time that looks like a fault, and is none.
func TestCheck_AllowsWhatIsNoFault(t *testing.T) {
	for name, legal := range map[string]func(*story){
		"a grant whose answer was lost, confirmed by a renewal of its own call": func(s *story) {
			s.grant("c", 1, "c1", 1000, 2000)
			s.renew("c", 1050, 2050, "c1")
			s.answer(history.AnswerUnknown, "c", 0, "c1", 900, 1100)
			s.renew("c", 1200, 2200, "c1") // Was on its way.
			s.grant("c", 2, "c2", 2200, 3000)
		},
		"a client that was killed before it was told": func(s *story) {
			s.grant("c", 1, "c1", 1000, 2000)
			for at := int64(1100); at < 1900; at += 100 {
				s.renew("c", at, at+1000, "c1")
			}
		},
		"an attempt granted twice, its first term having expired": func(s *story) {
			s.grant("c", 1, "c1", 1000, 2000)
			s.grant("c", 2, "c1", 2000, 3000)
			s.answer(history.AnswerGranted, "c", 2, "c1", 900, 2010)
		},
		"an epoch that an operator raised": func(s *story) {
			e := s.release("a", 5000, "c7")
			s.add(history.Event{Kind: history.KindFence, Name: "a", Token: 1 << 42, Xid: e.Xid, At: e.At})
			s.grant("a", 1<<42+1, "c3", 5010, 9000)
			s.trusts("a", 2, "c2", 5500, 100)
			s.client(history.KindRefused, "a", 2, "c2", 5100, 5200).Write = "w10"
		},
		"a free row that an operator raised": func(s *story) {
			s.release("a", 5000, "c2")
			s.revoke("a", 4, 5100)
			s.client(history.KindRefused, "a", 2, "c2", 5200, 5300).Write = "w10"
			s.grant("a", 5, "c3", 5400, 6000)
			s.answer(history.AnswerGranted, "a", 5, "c3", 5390, 5410)
		},
		"a release that a crash forgot": func(s *story) {
			s.released("a", 2, "c2", 4000, 4100)
			s.note(history.Event{Kind: history.KindCrash, From: 4200, To: 4300})
			s.answer(history.AnswerHeld, "a", 2, "c1", 5000, 5100)
			s.grant("a", 3, "c3", 9000, 9500)
			s.released("a", 2, "c2", 9300, 9301) // Called again: it returns what it did.
		},
		"a release that found the lease freed by an operator": func(s *story) {
			e := s.release("a", 5000, "c7")
			s.add(history.Event{Kind: history.KindFence, Name: "a", Token: 1 << 42, Xid: e.Xid, At: e.At})
			s.grant("a", 1<<42+1, "c3", 5010, 9000)
			s.answer(history.AnswerGranted, "a", 1<<42+1, "c3", 5005, 5015)
			s.released("a", 2, "c2", 5100, 5200)
		},
		"a write that failed for another definite reason": func(s *story) {
			e := s.client(history.KindRefused, "a", 2, "c2", 4000, 4100)
			e.Write, e.Text = "w10", "the work failed"
		},
		"an answer while two terms change": func(s *story) {
			s.grant("a", 3, "c3", 9000, 9500)
			s.answer(history.AnswerHeld, "a", 2, "c1", 8990, 9100)
			s.answer(history.AnswerGaveUp, "a", 3, "c4", 8000, 9100)
		},
		"a failover that forgot the last commits": func(s *story) {
			s.answer(history.AnswerGranted, "a", 3, "c3", 9000, 9100)
			s.client(history.KindWrote, "a", 3, "c3", 9100, 9150).Write = "lost"
			s.note(history.Event{Kind: history.KindCrash, Text: history.CrashLossy, From: 9200, To: 9300})
			s.answer(history.AnswerHeld, "a", 2, "c1", 9300, 9400)
			s.grant("a", 1<<32+1, "c4", 9500, 9900)
			s.answer(history.AnswerGranted, "a", 1<<32+1, "c4", 9490, 9510)
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := good()
			legal(s)
			require.Empty(t, history.Check(s.events))
		})
	}
}
