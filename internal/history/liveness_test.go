package history_test

import (
	"strings"
	"testing"

	"github.com/leasehold-go/leasehold/internal/history"
)

// TestCheck_EverybodyHasATurn: the end of a run with two candidates for a name.
func TestCheck_EverybodyHasATurn(t *testing.T) {
	for _, c := range []struct {
		what string
		text string
		end  func(*story)
	}{
		{"both have a turn", "", func(s *story) {
			s.client(history.KindStood, "a", 3, "c2", 10_300, 10_900)
		}},
		{"one never has", `"c2" stood for the name after the last fault and was never granted it`, func(*story) {}},
		{"nobody was granted in time", "granted again 2001 µs after the last fault, the bound is 2000 µs", func(s *story) {
			s.events[len(s.events)-1].To = 12_001
			s.client(history.KindStood, "a", 3, "c2", 10_300, 12_400)
		}},
		{"nobody was granted at all", "was never granted again", func(s *story) {
			s.events = s.events[:len(s.events)-1]
		}},
		{"a turn before the end of the faults does not count", "was never granted again", func(s *story) {
			s.events[len(s.events)-1].From = 9_000
		}},
		{"a name that nobody stood for", "nobody stood for the name", func(s *story) {
			s.client(history.KindStood, "a", 3, "c2", 10_300, 10_900)
			s.grant("b", 1, "c1", 1000, 2000)
		}},
		{"nobody said that the faults had ended", "nobody noted that the faults had ended", func(s *story) {
			for i, e := range s.events {
				if e.Kind == history.KindCalm {
					s.events[i].Kind = history.KindNote
				}
			}
		}},
		{"faults that end twice", `"c2" stood for the name`, func(s *story) {
			s.client(history.KindStood, "a", 3, "c2", 10_300, 10_900)
			s.note(history.Event{Kind: history.KindCalm, From: 20_000, To: 20_000, Left: 2000})
			s.client(history.KindCandidate, "a", 0, "c1", 20_001, 20_001)
			s.client(history.KindCandidate, "a", 0, "c2", 20_001, 20_001)
			s.client(history.KindStood, "a", 4, "c1", 20_010, 20_020)
		}},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			s := begin()
			s.note(history.Event{Kind: history.KindCalm, From: 10_000, To: 10_000, Left: 2000})
			s.client(history.KindCandidate, "a", 0, "c1", 10_001, 10_001)
			s.client(history.KindCandidate, "a", 0, "c2", 10_001, 10_001)
			s.grant("a", 2, "c1", 10_100, 10_200)
			s.grant("a", 3, "c2", 10_400, 10_900)
			s.client(history.KindStood, "a", 2, "c1", 10_010, 10_110)
			c.end(s)
			if c.text == "" {
				none(t, s.events)
				return
			}
			found(t, s.events, history.RuleLiveness, c.text)
		})
	}
}
