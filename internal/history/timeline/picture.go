package timeline

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"
)

// Measures, in pixels.
const (
	width    = 1600 // of a picture
	margin   = 190  // for the lanes' titles
	lineHigh = 13   // of a row
	barHigh  = 11
	thin     = 4 // of a bar of trust
	gap      = 7 // between lanes
	axisHigh = 18
)

// A picture draws a part of a scene.
type picture struct {
	scene    *scene
	from, to int64
	lanes    []lane
	brief    bool // terms and violations only, without text
	anchors  map[int]bool
	b        strings.Builder
}

// A lane is a strip of a picture.
type lane struct {
	key, title string
	top, high  int
}

// draw draws a part of the scene. The violations in anchors get the place that the list links to.
func (s *scene) draw(from, to int64, brief bool, anchors map[int]bool) string {
	p := &picture{scene: s, from: from, to: to, brief: brief, anchors: anchors}
	marks := p.visible()
	high := p.layOut(marks)
	fmt.Fprintf(&p.b, `<svg viewBox="0 0 %d %d" width="%d" height="%d">`, width, high, width, high)
	p.axis(high)
	for _, l := range p.lanes {
		fmt.Fprintf(&p.b, `<rect class="lane" x="%d" y="%d" width="%d" height="%d"/><text class="title" x="4" y="%d">%s</text>`,
			margin, l.top, width-margin, l.high, l.top+min(l.high, lineHigh), html.EscapeString(shorten(l.title, 27)))
	}
	for _, m := range marks {
		if m.class == "step" || m.class == "crash" || m.class == "calm" {
			fmt.Fprintf(&p.b, `<rect class="across %s" x="%.1f" y="%d" width="%.1f" height="%d"/>`,
				m.class, p.x(m.from), axisHigh, max(p.x(m.to)-p.x(m.from), 1), high-axisHigh)
		}
	}
	for _, under := range []bool{true, false} {
		for _, m := range marks {
			if (m.class == "hit") == under {
				p.mark(m)
			}
		}
	}
	for _, m := range marks {
		p.rings(m)
	}
	p.b.WriteString("</svg>\n")
	return p.b.String()
}

// visible are the marks within the picture.
func (p *picture) visible() []mark {
	var list []mark
	for _, m := range p.scene.marks {
		if m.to < p.from || m.from > p.to {
			continue
		}
		if p.brief && len(m.rings) == 0 && !strings.HasPrefix(m.lane, "name:") && m.lane != faultLane {
			continue
		}
		if p.brief && len(m.rings) == 0 && !slices.Contains([]string{"term", "term ended", "crash", "step", "calm"}, m.class) {
			continue
		}
		list = append(list, m)
	}
	return list
}

// layOut gives each lane that has something its place, and returns the height of the whole.
func (p *picture) layOut(marks []mark) int {
	rows := map[string]int{}
	for _, m := range marks {
		rows[m.lane] = max(rows[m.lane], m.row+1)
	}
	top := axisHigh
	add := func(key, title string, high int) {
		p.lanes = append(p.lanes, lane{key, title, top, high})
		top += high + gap
	}
	switch n := rows[faultLane]; {
	case n == 0:
	case p.brief:
		add(faultLane, "crashes, clock", lineHigh)
	default:
		add(faultLane, "faults", n*lineHigh)
	}
	for _, name := range p.scene.names {
		if rows[nameLane(name)] > 0 || p.brief {
			add(nameLane(name), fmt.Sprintf("name %q", name), 2*lineHigh)
		}
	}
	for _, client := range p.scene.clients {
		if n := rows[clientLane(client)]; n > 0 && !p.brief {
			add(clientLane(client), "client "+client, 2*lineHigh+max(0, n-trusted)*(thin+1))
		}
	}
	return top
}

func (p *picture) axis(high int) {
	step := int64(1_000_000)
	for (p.to-p.from)/step > 20 {
		step *= 5
	}
	if (p.to-p.from)/step < 6 {
		step /= 4
	}
	for at := (p.from + step - 1) / step * step; at <= p.to; at += step {
		x := p.x(at)
		fmt.Fprintf(&p.b, `<line class="tick" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text class="time" x="%.1f" y="11">%g s</text>`,
			x, axisHigh-4, x, high, x+2, float64(at)/1e6)
	}
}

func (p *picture) x(at int64) float64 {
	at = max(p.from, min(at, p.to))
	return margin + float64(at-p.from)/float64(p.to-p.from)*(width-margin)
}

// spot is where a mark is drawn.
func (p *picture) spot(m mark) (x, y, wide, high float64, found bool) {
	key := m.lane
	if p.brief && strings.HasPrefix(key, "client:") {
		key = nameLane(m.name)
	}
	i := slices.IndexFunc(p.lanes, func(l lane) bool { return l.key == key })
	if i < 0 {
		return 0, 0, 0, 0, false
	}
	x = p.x(m.from)
	wide = max(p.x(m.to)-x, 2)
	y, high = float64(p.lanes[i].top), barHigh
	switch {
	case m.class == "hit":
		high = float64(p.lanes[i].high)
	case p.brief && m.lane != key:
		y += lineHigh
	case p.brief && m.lane == faultLane:
	case m.class == "trusts":
		y += float64(2*lineHigh + (m.row-trusted)*(thin+1))
		high = thin
	case m.class == "renewal" || m.class == "write" || m.class == "freed" || m.class == "fence":
		y += lineHigh
	default:
		y += float64(m.row * lineHigh)
	}
	return x, y, wide, high, true
}

func (p *picture) mark(m mark) {
	x, y, wide, high, found := p.spot(m)
	if !found {
		return
	}
	colour := ""
	if strings.HasPrefix(m.class, "term") || m.class == "trusts" || m.class == "answer granted" {
		colour = fmt.Sprintf(` style="fill:hsl(%d 55%% %d%%)"`, p.hue(m.name), 68+8*(m.token%3))
	}
	fmt.Fprintf(&p.b, `<g class="%s"><title>%s</title>`, html.EscapeString(m.class), html.EscapeString(m.tip))
	switch m.class {
	case "write":
		fmt.Fprintf(&p.b, `<path d="M%.1f %.1fl4 5.5l-4 5.5l-4 -5.5z"/>`, x, y)
	case "renewal", "freed", "fence":
		fmt.Fprintf(&p.b, `<rect x="%.1f" y="%.1f" width="1.6" height="%.1f"/>`, x, y, high)
	case "note", "ended", "other", "calm":
		fmt.Fprintf(&p.b, `<circle cx="%.1f" cy="%.1f" r="3"/>`, x, y+high/2)
	default:
		fmt.Fprintf(&p.b, `<rect%s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, colour, x, y, wide, high)
	}
	p.b.WriteString("</g>")
	room := wide
	if m.lane == faultLane && m.from >= p.from {
		room = max(wide, float64(600_000)/float64(p.to-p.from)*(width-margin))
	}
	const letter = 5.6
	if n := int(room/letter) - 1; !p.brief && m.label != "" && n >= 2 && (n >= utf8.RuneCountInString(m.label) || n > 5) {
		fmt.Fprintf(&p.b, `<text class="label" x="%.1f" y="%.1f">%s</text>`, x+2, y+9, html.EscapeString(shorten(m.label, n)))
	}
}

// rings draws the violations that a mark shows, and the place that the list links to at the last of each.
func (p *picture) rings(m mark) {
	x, y, wide, high, found := p.spot(m)
	if !found || len(m.rings) == 0 || m.from < p.from {
		return
	}
	ring := func(id string) {
		fmt.Fprintf(&p.b, `<rect class="ring"%s x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4"/>`,
			id, x-3.5, y-2.5, min(wide, 60)+7, high+5)
	}
	ring("")
	texts := make([]string, len(m.rings))
	for i, n := range m.rings {
		texts[i] = fmt.Sprint(n)
		if !p.brief && p.anchors[n] {
			delete(p.anchors, n)
			ring(fmt.Sprintf(` id="v%d"`, n))
		}
	}
	text := strings.Join(texts, ",")
	if len(texts) > 4 {
		text = strings.Join(texts[:4], ",") + ",…"
	}
	fmt.Fprintf(&p.b, `<a href="#l%d"><text class="number" x="%.1f" y="%.1f">%s</text></a>`,
		m.rings[0], x+min(wide, 60)+5, y+9, text)
}

// hue is the colour of a name.
func (p *picture) hue(name string) int {
	return (slices.Index(p.scene.names, name)*137 + 205) % 360
}

// shorten cuts a text to so many letters.
func shorten(text string, letters int) string {
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	return string([]rune(text)[:max(0, letters-1)]) + "…"
}
