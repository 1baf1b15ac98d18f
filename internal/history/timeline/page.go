package timeline

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/leasehold-go/leasehold/internal/history"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

const (
	slice = 4_000_000 // of time in one picture
	most  = 200       // more are drawn around violations only
)

// A page is what the template shows.
type page struct {
	Title      string
	CSS        template.CSS
	Counts     []string
	Violations []violation
	Whole      template.HTML
	Slices     []part
	Left       int // slices of the whole, if some are left out
}

// A violation is one of the list.
type violation struct {
	history.Violation
	Number int
	Placed bool // it can be linked to
	Events []string
}

// A part is a slice of the run.
type part struct {
	Number  int
	Text    string
	Open    bool
	Picture template.HTML
}

// Write draws a history with what is wrong in it as one HTML page.
func Write(w io.Writer, events []history.Event, violations []history.Violation) error {
	s := newScene(events, violations)
	p := page{Title: title(s, violations), CSS: template.CSS(pageCSS), Counts: s.counted(len(events))}
	anchors := map[int]bool{}
	for _, m := range s.marks {
		for _, n := range m.rings {
			anchors[n] = true
		}
	}
	for i, v := range violations {
		p.Violations = append(p.Violations, violation{Violation: v, Number: i + 1, Placed: anchors[i+1], Events: lines(v.Events)})
	}
	p.Whole = template.HTML(s.draw(0, s.length, true, nil))
	p.cut(s, anchors)
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	return nil
}

// cut draws the slices. Those with violations are open, the first one if there are none.
func (p *page) cut(s *scene, anchors map[int]bool) {
	total := int((s.length + slice - 1) / slice)
	wrong := make([]bool, total)
	for _, m := range s.marks {
		if len(m.rings) > 0 {
			wrong[min(int(m.from/slice), total-1)] = true
		}
	}
	few := total > most
	for i := range total {
		near := wrong[i] || i > 0 && wrong[i-1] || i+1 < total && wrong[i+1]
		if few && !near && (i > 0 || slices.Contains(wrong, true)) {
			continue
		}
		from, to := int64(i)*slice, int64(i+1)*slice
		p.Slices = append(p.Slices, part{
			Number: i + 1, Open: wrong[i] || i == 0 && !slices.Contains(wrong, true),
			Text:    s.summary(from, min(to, s.length)),
			Picture: template.HTML(s.draw(from, to, false, anchors)),
		})
	}
	if few {
		p.Left = total
	}
}

func title(s *scene, violations []history.Violation) string {
	verdict := "no violation"
	if n := len(violations); n == 1 {
		verdict = "1 violation"
	} else if n > 1 {
		verdict = fmt.Sprintf("%d violations", n)
	}
	return fmt.Sprintf("%s in %.1f s", verdict, float64(s.length)/1e6)
}

// counted says how much of everything there is.
func (s *scene) counted(events int) []string {
	terms := 0
	for _, m := range s.marks {
		if strings.HasPrefix(m.class, "term") {
			terms++
		}
	}
	list := []string{fmt.Sprintf("%d events", events), fmt.Sprintf("%d terms", terms)}
	for _, c := range []struct {
		kind history.Kind
		word string
	}{
		{history.KindAnswer, "answers"}, {history.KindWrite, "fenced writes committed"}, {history.KindRefused, "refused"},
		{history.KindTrusts, "samples of trust"}, {history.KindFault, "faults"}, {history.KindStep, "steps of the clock"},
		{history.KindStood, "turns after the faults"},
	} {
		if n := s.counts[c.kind]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, c.word))
		}
	}
	return append(list, fmt.Sprintf("%d names", len(s.names)), fmt.Sprintf("%d clients", len(s.clients)))
}

// summary says what is in a slice.
func (s *scene) summary(from, to int64) string {
	count, faults, rings := map[string]int{}, []string{}, []int{}
	for _, m := range s.marks {
		if m.to < from || m.from >= to {
			continue
		}
		if m.from >= from {
			count[strings.Fields(m.class)[0]]++
			rings = append(rings, m.rings...)
		}
		if m.class == "fault" || m.class == "crash" || m.class == "step" {
			word, _, _ := strings.Cut(m.label, ":")
			faults = append(faults, word)
		}
	}
	text := fmt.Sprintf("%g–%.3g s: %d terms, %d writes", float64(from)/1e6, float64(to)/1e6, count["term"], count["write"])
	if n := count["refused"]; n > 0 {
		text += fmt.Sprintf(", %d refused", n)
	}
	slices.Sort(rings)
	if rings = slices.Compact(rings); len(rings) > 0 {
		text += fmt.Sprintf("; VIOLATIONS %v", rings)
	}
	if len(faults) > 0 {
		text += "; " + shorten(strings.Join(faults, ", "), 120)
	}
	return text
}

// lines are events as they stand in a file.
func lines(events []history.Event) []string {
	list := make([]string, len(events))
	for i, e := range events {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(e) // Has nothing that cannot be encoded.
		list[i] = strings.TrimSpace(b.String())
	}
	return list
}
