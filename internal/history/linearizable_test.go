package history_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

// TestCheck_AnswersFitOneOrder: what clients were told, without a word from the database's record. The text is empty where an order
// exists.
func TestCheck_AnswersFitOneOrder(t *testing.T) {
	const granted, held, gaveUp = history.AnswerGranted, history.AnswerHeld, history.AnswerGaveUp
	for _, c := range []struct {
		what string
		text string
		told func(*story)
	}{
		{"one after the other", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(held, "a", 1, "c2", 120, 130)
			s.released("a", 1, "c1", 140, 150)
			s.answer(granted, "a", 2, "c2", 160, 170)
		}},
		{"granted while the release is under way", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 150)
			s.answer(held, "a", 1, "c3", 115, 149)
			s.released("a", 1, "c1", 140, 190)
		}},
		{"one token for two", `"c2" is granted token 1`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 1, "c2", 120, 130)
		}},
		{"a lower token", `"c2" is granted token 4`, func(s *story) {
			s.answer(granted, "a", 5, "c1", 100, 110)
			s.answer(granted, "a", 4, "c2", 120, 130)
		}},
		{"a lower token, at the same time", "", func(s *story) {
			s.answer(granted, "a", 5, "c1", 100, 125)
			s.answer(granted, "a", 4, "c2", 120, 130)
		}},
		{"held after its release and the next grant", `"c3" is told that token 1 holds`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.released("a", 1, "c1", 140, 150)
			s.answer(granted, "a", 2, "c2", 160, 170)
			s.answer(held, "a", 1, "c3", 180, 190)
		}},
		{"held after its release", `"c3" is told that token 1 holds`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.released("a", 1, "c1", 140, 150)
			s.answer(held, "a", 1, "c3", 180, 190)
		}},
		{"given up, having seen it held before its release", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.released("a", 1, "c1", 140, 150)
			s.answer(gaveUp, "a", 1, "c3", 120, 190)
		}},
		{"held before it was granted", `"c3" is told that token 1 holds`, func(s *story) {
			s.answer(held, "a", 1, "c3", 80, 90)
			s.answer(granted, "a", 1, "c1", 100, 110)
		}},
		{"held by turns", `is told that token`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 100, 300)
			s.answer(held, "a", 2, "c3", 200, 210)
			s.answer(held, "a", 1, "c3", 220, 230)
		}},
		{"trusted after the next grant", `"c2" is granted token 2; and then "c1" trusts token 1`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 130)
			s.trusts("a", 1, "c1", 140, 10)
		}},
		{"trusted, and over without a word", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.trusts("a", 1, "c1", 140, 10)
			s.answer(granted, "a", 2, "c2", 160, 170)
		}},
		{"a stale write", `"c1" writes with token 1`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 130)
			s.client(history.KindWrote, "a", 1, "c1", 140, 150)
		}},
		{"a write that was under way at the next grant", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 130)
			s.client(history.KindWrote, "a", 1, "c1", 125, 150)
		}},
		{"a write under way, after the next one's", `writes with token`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 200)
			s.client(history.KindWrote, "a", 2, "c2", 130, 140)
			s.client(history.KindWrote, "a", 1, "c1", 150, 160)
		}},
		{"writes in token order in another database", `"c1" writes with token 4`, func(s *story) {
			s.client(history.KindWrote, "w", 4, "c1", 100, 110)
			s.client(history.KindWrote, "w", 5, "c2", 120, 130)
			s.client(history.KindWrote, "w", 4, "c1", 140, 150)
		}},
		{"a refusal after the next grant", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.answer(granted, "a", 2, "c2", 120, 130)
			s.client(history.KindRefused, "a", 1, "c1", 140, 150)
		}},
		{"a refusal without a reason", `"c1" is refused with token 1`, func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.client(history.KindRefused, "a", 1, "c1", 120, 130)
			s.answer(granted, "a", 2, "c2", 140, 150)
		}},
		{"released twice, with one answer", "", func(s *story) {
			s.answer(granted, "a", 1, "c1", 100, 110)
			s.released("a", 1, "c1", 120, 130)
			s.released("a", 1, "c1", 140, 150)
		}},
		{"released before it was granted", `is released`, func(s *story) {
			s.released("a", 1, "c1", 80, 90)
			s.answer(granted, "a", 1, "c1", 100, 110)
		}},
		{"a candidate's turn", `"c2" is granted token 1`, func(s *story) {
			s.answer(granted, "a", 2, "c1", 100, 110)
			s.client(history.KindStood, "a", 1, "c2", 120, 130)
		}},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			s := &story{unit: 1}
			c.told(s)
			if c.text == "" {
				require.Empty(t, noOrder(s.events))
				return
			}
			require.Contains(t, noOrder(s.events), c.text)
		})
	}
}

// TestCheck_AnswersFitWhatNobodyWasTold: grants and releases whose answers were lost come from the record, at the time at which
// they may have been committed.
func TestCheck_AnswersFitWhatNobodyWasTold(t *testing.T) {
	s := begin()
	s.grant("a", 1, "c1", 1000, 1500) // Its answer was lost; its client frees it, or it runs out.
	s.answer(history.AnswerUnknown, "a", 0, "c1", 900, 1050)
	s.answer(history.AnswerHeld, "a", 1, "c2", 1100, 1200)
	s.grant("a", 2, "c2", 1500, 9000)
	s.answer(history.AnswerGranted, "a", 2, "c2", 1400, 1510)
	s.release("a", 2000, "c2")
	s.client(history.KindReleased, "a", 2, "c2", 1900, 1950).Text = history.ReleaseUnknown
	s.grant("a", 3, "c3", 2100, 9000)
	s.answer(history.AnswerGranted, "a", 3, "c3", 2090, 2110)
	s.write("a", 3, 3, "w1")
	s.client(history.KindUnknown, "a", 3, "c3", 2200, 2300).Write = "w1"
	none(t, s.events)

	s.answer(history.AnswerHeld, "a", 1, "c4", 2200, 2300)
	found(t, s.events, history.RuleLinearizable, "\"c4\" is told that token 1 holds")
	s.events = s.events[:len(s.events)-1]
	s.answer(history.AnswerHeld, "a", 2, "c4", 2120, 2300)
	found(t, s.events, history.RuleLinearizable, "\"c4\" is told that token 2 holds")
}

// TestCheck_AnswersFitTheExpiry: a term that nobody released goes on until its expiry, whatever the record says of the next grant.
func TestCheck_AnswersFitTheExpiry(t *testing.T) {
	s := begin()
	s.grant("a", 1, "c1", 1000, 2000)
	s.answer(history.AnswerGranted, "a", 1, "c1", 990, 1010)
	s.answer(history.AnswerGranted, "a", 2, "c2", 1900, 1994)
	found(t, s.events, history.RuleLinearizable, `"c2" is granted token 2`)
	s.events[len(s.events)-1].To = 1995
	require.Empty(t, noOrder(s.events))
}

// noOrder is what the rule says of answers that fit no order.
func noOrder(events []history.Event) string {
	var texts []string
	for _, v := range history.Check(events) {
		if v.Rule == history.RuleLinearizable {
			texts = append(texts, v.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// TestCheck_LargeHistoryIsJudged: the search does not explode where there is an order, nor where there is none.
func TestCheck_LargeHistoryIsJudged(t *testing.T) {
	t.Parallel()
	events := busy(7, 4, 4000)
	started := time.Now()
	require.Empty(t, noOrder(events))
	t.Logf("%d answers, with an order: %v", len(events), time.Since(started))

	events = append(events, history.Event{
		Kind: history.KindAnswer, Client: "late", Name: "n0", Seen: 3, Text: history.AnswerHeld, From: 3_000_000, To: 3_000_100,
	})
	started = time.Now()
	require.Contains(t, noOrder(events), `"late" is told that token 3 holds`)
	t.Logf("without one: %v", time.Since(started))
}

// TestCheck_WhatNobodyWasToldIsSoonOver: what the record has was committed before the next change of its row. Were its window open
// to the end, there would be no end to the search where there is no order.
func TestCheck_WhatNobodyWasToldIsSoonOver(t *testing.T) {
	s := begin()
	at, token := int64(1000), int64(0)
	for range 100 {
		token += 2
		s.grant("a", token, "c1", at, at+100) // Nobody is told, and an operator raises the fence after it.
		write := s.write("a", token, token, fmt.Sprint("w", token))
		write.At = s.now(at + 50)
		s.client(history.KindUnknown, "a", token, "c1", at+40, at+60).Write = write.Write
		s.fence("a", token+1).At = s.now(at + 60)
		at += 100
	}
	s.clock(at)
	none(t, s.events)
	s.answer(history.AnswerHeld, "a", 2, "c2", at, at+10)
	found(t, s.events, history.RuleLinearizable, "had run out")
	require.NotContains(t, noOrder(s.events), "not decided")
	require.Contains(t, noOrder(s.events), `"c2" is told that token 2 holds`)
}

// busy is a history of what clients are told about some locks: many answers, each with a window that overlaps others', and each
// right at one time in it.
func busy(seed uint64, names, moves int) []history.Event {
	d := rand.New(rand.NewPCG(seed, 1))
	s := &story{unit: 1}
	for n := range names {
		name, at := fmt.Sprintf("n%d", n), int64(1000)
		window := func() (from, to int64) { return at - d.Int64N(3000), at + d.Int64N(3000) }
		held, token := false, int64(0)
		for range moves {
			at += 200 + d.Int64N(1500)
			from, to := window()
			client := fmt.Sprintf("c%d", token%7)
			switch {
			case !held:
				token, held = token+1, true
				s.answer(history.AnswerGranted, name, token, fmt.Sprintf("c%d", token%7), from, to)
			case d.IntN(8) == 0:
				held = false
				s.released(name, token, client, from, to)
			case d.IntN(4) == 0:
				s.client(history.KindWrote, name, token, client, from, to)
			case d.IntN(4) == 0 && token > 1:
				s.client(history.KindRefused, name, token-1, "old", from, to)
			default:
				s.answer(history.AnswerHeld, name, token, "c8", from, to)
			}
		}
	}
	return s.events
}
