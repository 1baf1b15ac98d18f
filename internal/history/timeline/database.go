package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasehold-go/leasehold/internal/history"
)

// drawDatabase draws the terms and the fenced writes of each name.
func (s *scene) drawDatabase(events []history.Event, rings map[history.Event][]int) {
	byName := map[string][]history.Event{}
	for _, e := range events {
		if e.Seq > 0 {
			byName[e.Name] = append(byName[e.Name], e)
		}
	}
	for _, list := range byName {
		slices.SortStableFunc(list, func(a, b history.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		s.drawName(list, rings)
	}
}

// drawName draws one name. A term ends with its release, its expiry or the next grant.
func (s *scene) drawName(events []history.Event, rings map[history.Event][]int) {
	term, expires := -1, int64(0) // The mark of the present term, and when it runs out.
	end := func(at int64, class string) {
		if term < 0 {
			return
		}
		m := &s.marks[term]
		if expires > m.from && expires < at {
			at, class = expires, "term"
		}
		m.to = max(m.from, at)
		m.class = class
		m.tip += ", until " + seconds(m.to)
		term = -1
	}
	for _, e := range events {
		at := s.place(e)
		tick := mark{
			lane: nameLane(e.Name), from: at, to: at, name: e.Name, token: e.Token, rings: rings[bare(e)],
			tip: fmt.Sprintf("%s, event %d, transaction %d of %q", seconds(at), e.Seq, e.Xid, e.By),
		}
		switch {
		case e.Grants():
			end(at, "term")
			expires = s.after(e, *e.New.Expires)
			term = len(s.marks)
			m := tick
			m.class, m.to, m.token = "term", s.length, e.New.Token
			m.label = short(e.New.Token) + " " + e.New.Label
			m.tip = fmt.Sprintf("%q: token %d granted to %s; %s", e.Name, e.New.Token, e.New.Label, tick.tip)
			s.add(m)
		case e.Renews():
			expires = s.after(e, *e.New.Expires)
			tick.class = "renewal"
			tick.tip = fmt.Sprintf("%q: token %d renewed until %s; %s", e.Name, e.New.Token, seconds(expires), tick.tip)
			s.add(tick)
		case e.Kind == history.KindLease:
			what := "freed"
			if e.New == nil {
				what = "deleted"
			} else if e.New.Expires != nil {
				what = fmt.Sprintf("given token %d", e.New.Token)
			}
			end(at, "term ended")
			tick.class, tick.tip = "freed", fmt.Sprintf("%q: %s; %s", e.Name, what, tick.tip)
			s.add(tick)
		case e.Kind == history.KindWrite:
			tick.class = "write"
			tick.tip = fmt.Sprintf("%q: write %s committed with token %d at fence %d; %s", e.Name, e.Write, e.Token, e.Fence, tick.tip)
			s.add(tick)
		case len(tick.rings) > 0: // A fence is of interest only then: each grant and write raises one.
			tick.class, tick.tip = "fence", fmt.Sprintf("%q: fence at %d; %s", e.Name, e.Token, tick.tip)
			s.add(tick)
		}
	}
	end(s.length, "term")
}

// after is when the database's clock will say at, counted from an event.
func (s *scene) after(e history.Event, at int64) int64 { return s.place(e) + at - e.At }
