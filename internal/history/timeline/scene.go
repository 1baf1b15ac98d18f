package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A scene is a history made ready to be drawn: marks in lanes. Times are microseconds since its beginning.
type scene struct {
	length  int64
	names   []string
	clients []string
	marks   []mark
	counts  map[history.Kind]int
	begins  int64 // on the machine's clock
	clock   history.Clock
}

// A mark is one thing that is drawn.
type mark struct {
	lane     string // "faults", "name:…" or "client:…"
	class    string // how it looks, see page.css
	row      int    // within the lane
	from, to int64
	label    string // drawn if there is room
	tip      string // shown under the pointer
	name     string // of the lease, for its colour
	token    int64
	rings    []int // violations that it shows, by number
}

const faultLane = "faults"

func nameLane(name string) string     { return "name:" + name }
func clientLane(client string) string { return "client:" + client }

func newScene(events []history.Event, violations []history.Violation) *scene {
	s := &scene{counts: map[history.Kind]int{}, clock: history.NewClock(events)}
	s.bounds(events)
	rings := map[history.Event][]int{}
	for i, v := range violations {
		for _, e := range v.Events {
			rings[bare(e)] = append(rings[bare(e)], i+1)
		}
	}
	names, clients := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		s.counts[e.Kind]++
		if e.Name != "" {
			names[e.Name] = true
		}
		if e.Client != "" && e.Name != "" { // Not who only notes faults.
			clients[e.Client] = true
		}
	}
	s.names, s.clients = sorted(names), sorted(clients)
	s.drawDatabase(events, rings)
	s.drawNoted(events, rings)
	slices.SortStableFunc(s.marks, func(a, b mark) int { return cmp.Compare(a.from, b.from) })
	return s
}

// bare makes an event comparable by what it says, whatever its rows' addresses.
func bare(e history.Event) history.Event {
	e.Old, e.New = nil, nil
	return e
}

// sorted sorts c2 before c10.
func sorted(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for s := range set {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(padded(a), padded(b)), cmp.Compare(a, b)) })
	return list
}

// padded writes each number in a text with as many digits.
func padded(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		digits := 0
		for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		if digits == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		n, _ := strconv.ParseUint(text[:digits], 10, 64) // Too long: 0, and the text itself decides.
		fmt.Fprintf(&b, "%020d", n)
		text = text[digits:]
	}
	return b.String()
}

// bounds finds the beginning and the length of a history. What the database recorded counts only if no process noted anything.
func (s *scene) bounds(events []history.Event) {
	first, last, found := int64(0), int64(0), false
	take := func(from, to int64) {
		if !found || from < first {
			first = from
		}
		if !found || to > last {
			last = to
		}
		found = true
	}
	for _, e := range events {
		if e.Seq == 0 && (e.From != 0 || e.To != 0) {
			take(e.From, e.To)
		}
	}
	if !found {
		for _, e := range events {
			take(e.At, e.At)
		}
	}
	s.begins, s.length = first, max(last-first, 1)
}

// place is when the database recorded an event, since the beginning.
func (s *scene) place(e history.Event) int64 {
	const coarse = 20_000
	at := e.At
	if s.clock.Known() {
		from, to := s.clock.Machine(e.At)
		at = from + (to-from)/2
		if e.Up > 0 && (to-from > coarse || at > e.Up+coarse) { // Twice on a clock that was set back.
			at = e.Up
		}
	} else if e.Up > 0 {
		at = e.Up
	}
	return s.within(at - s.begins)
}

func (s *scene) within(at int64) int64 { return max(0, min(at, s.length)) }

func (s *scene) add(m mark) { s.marks = append(s.marks, m) }

// seconds words a time since the beginning.
func seconds(at int64) string { return fmt.Sprintf("%.3f s", float64(at)/1e6) }

// short words a token: one of a later epoch by its epoch and its number in it.
func short(token int64) string {
	if epoch := token >> 32; epoch > 0 {
		return fmt.Sprintf("%d:%d", epoch, token&(1<<32-1))
	}
	return fmt.Sprint(token)
}
