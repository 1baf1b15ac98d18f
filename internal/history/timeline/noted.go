package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-go/leasehold/internal/history"
)

// Rows of a client's lane.
const (
	asked   = 0 // acquires and releases
	wrote   = 1
	trusted = 2 // and one more for each further name
)

// How long a client may not have been asked whether it trusts a lease for it to be drawn as one bar.
const pause = 250_000

// drawNoted draws what processes noted. Samples of clocks are left out, and those of trust drawn together.
func (s *scene) drawNoted(events []history.Event, rings map[history.Event][]int) {
	noted := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Seq > 0 })
	slices.SortStableFunc(noted, func(a, b history.Event) int { return cmp.Compare(a.From, b.From) })
	frees := map[int]int64{} // rows of faults, until when they are taken
	for _, e := range noted {
		from, to := s.within(e.From-s.begins), s.within(e.To-s.begins)
		m := mark{lane: clientLane(e.Client), from: from, to: to, name: e.Name, token: e.Token, rings: rings[bare(e)]}
		switch e.Kind {
		case history.KindClock, history.KindGranted:
			if len(m.rings) == 0 {
				continue
			}
			m.class, m.row = "other", wrote
			m.tip = string(e.Kind)
		case history.KindFault, history.KindStep, history.KindCrash, history.KindCalm:
			s.drawFault(e, m, frees)
			continue
		case history.KindTrusts:
			s.drawTrust(m, e)
			continue
		case history.KindNote:
			if !slices.Contains(s.clients, e.Client) {
				m.lane = faultLane
			}
			m.class, m.tip = "note", e.Text
			if e.Client != "" && strings.HasPrefix(e.Text, "op ") {
				continue // What the operation was told is there.
			}
		default:
			m.class, m.row = look(e)
			m.label = label(e)
			m.tip = fmt.Sprintf("%s %s %q", e.Client, e.Kind, e.Name)
			if e.Token > 0 {
				m.tip += fmt.Sprintf(" token %d", e.Token)
			}
			if e.Seen > 0 {
				m.tip += fmt.Sprintf(" held by token %d", e.Seen)
			}
			if e.Write != "" {
				m.tip += " write " + e.Write
			}
			if e.Text != "" {
				m.tip += ": " + e.Text
			}
		}
		m.tip = fmt.Sprintf("%s–%s: %s", seconds(from), seconds(to), m.tip)
		s.add(m)
	}
}

// look is the class and the row of what a client noted.
func look(e history.Event) (class string, row int) {
	switch e.Kind {
	case history.KindAnswer:
		word, _, _ := strings.Cut(e.Text, ":")
		return "answer " + strings.ReplaceAll(word, " ", "-"), asked
	case history.KindReleased:
		word, _, _ := strings.Cut(e.Text, ":")
		return "release " + word, asked
	case history.KindStood:
		return "stood", wrote
	case history.KindWrote, history.KindRefused, history.KindUnknown:
		return string(e.Kind), wrote
	case history.KindEnded:
		return "ended", asked
	default:
		return "other", asked
	}
}

// label is a word or two for what a client noted.
func label(e history.Event) string {
	switch {
	case e.Write != "" || e.Kind == history.KindAnswer && e.Token > 0:
		return e.Name + " " + short(e.Token)
	case e.Kind == history.KindAnswer && e.Seen > 0:
		return fmt.Sprintf("%s held by %s", e.Name, short(e.Seen))
	case e.Kind == history.KindAnswer:
		word, _, _ := strings.Cut(e.Text, ":")
		return e.Name + " " + word
	case e.Kind == history.KindReleased:
		return fmt.Sprintf("%s free %s", e.Name, short(e.Token))
	default:
		return ""
	}
}

// drawFault draws what was broken: in the lane of the faults, and over the client or the whole if it hit that.
func (s *scene) drawFault(e history.Event, m mark, frees map[int]int64) {
	m.lane, m.class, m.label = faultLane, string(e.Kind), e.Text
	switch e.Kind {
	case history.KindStep:
		m.label = fmt.Sprintf("clock %+.3f s", float64(e.Left)/1e6)
	case history.KindCrash:
		m.label = strings.TrimSpace("crash " + e.Text)
	case history.KindCalm:
		m.from, m.label = m.to, fmt.Sprintf("calm; every name within %.1f s", float64(e.Left)/1e6)
	}
	m.tip = fmt.Sprintf("%s–%s: %s", seconds(m.from), seconds(m.to), m.label)
	if slices.Contains(s.clients, e.Client) {
		m.label = e.Client + " " + m.label
		over := m
		over.lane, over.class, over.label = clientLane(e.Client), "hit", ""
		s.add(over)
	}
	for frees[m.row] > m.from {
		m.row++
	}
	frees[m.row] = max(m.to, m.from+600_000) // Room for its text.
	s.add(m)
}

// drawTrust adds a sample of trust to the bar of its term, or begins another.
func (s *scene) drawTrust(m mark, e history.Event) {
	m.class, m.row = "trusts", trusted+slices.Index(s.names, e.Name)
	m.tip = fmt.Sprintf("%s trusts token %d of %q", e.Client, e.Token, e.Name)
	if len(m.rings) > 0 {
		m.tip = fmt.Sprintf("%s–%s: %s for %d µs", seconds(m.from), seconds(m.to), m.tip, e.Left)
		s.add(m)
		return
	}
	for i := len(s.marks) - 1; i >= max(0, len(s.marks)-400); i-- {
		bar := &s.marks[i]
		if bar.class == m.class && bar.lane == m.lane && bar.name == m.name && bar.token == m.token && len(bar.rings) == 0 {
			if m.from-bar.to < pause {
				bar.to = m.to
				return
			}
			break
		}
	}
	s.add(m)
}
