package timeline_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/history/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is a history of so many seconds in which two clients take turns: each is granted the name, renews, writes, and releases.
func run(name string, seconds int64) []history.Event {
	const base, second = int64(1_700_000_000_000_000), int64(1_000_000)
	events := []history.Event{
		{Kind: history.KindClock, From: 0, To: 10, At: base + 5},
		{Kind: history.KindFault, Process: "run", Client: "c1", From: 100_000, To: 200_000, Text: "stopped"},
		{Kind: history.KindFault, Process: "run", From: 150_000, To: 260_000, Text: "vacuum <full>"},
		{Kind: history.KindCalm, Process: "run", From: 900_000, To: 900_000, Left: second},
	}
	seq := int64(0)
	add := func(e history.Event) {
		seq++
		e.Seq, e.Xid, e.Name = seq, seq, name
		events = append(events, e)
	}
	for at := range seconds {
		from, token, client := at*second, at+1, fmt.Sprintf("c%d", at%2+1)
		expires := base + from + second
		granted := &history.Row{Token: token, Holder: client, Label: client, Acquired: base + from, Renewed: base + from, Expires: &expires}
		add(history.Event{Kind: history.KindLease, At: base + from, By: client, New: granted})
		renewed := *granted
		renewed.Renewed += 500_000
		add(history.Event{Kind: history.KindLease, At: base + from + 500_000, By: client, Old: granted, New: &renewed})
		write := fmt.Sprintf("%s.%d", client, at)
		add(history.Event{Kind: history.KindWrite, At: base + from + 600_000, By: client, Token: token, Fence: token, Write: write})
		freed := renewed
		freed.Expires = nil
		add(history.Event{Kind: history.KindLease, At: base + from + 900_000, By: client, Old: &renewed, New: &freed})
		note := func(kind history.Kind, since, until int64, e history.Event) {
			e.Kind, e.Process, e.Client, e.Name, e.From, e.To = kind, client, client, name, from+since, from+until
			events = append(events, e)
		}
		note(history.KindAnswer, 0, 20_000, history.Event{Token: token, Text: history.AnswerGranted})
		for i := range int64(80) {
			note(history.KindTrusts, 20_000+i*10_000, 20_001+i*10_000, history.Event{Token: token, Left: 100})
		}
		note(history.KindWrote, 590_000, 610_000, history.Event{Token: token, Write: write})
		note(history.KindReleased, 890_000, 910_000, history.Event{Token: token, Text: history.ReleaseDone})
		note(history.KindNote, 950_000, 950_000, history.Event{Text: "closed"})
	}
	return events
}

func written(t *testing.T, events []history.Event, violations []history.Violation) string {
	t.Helper()
	var page strings.Builder
	require.NoError(t, timeline.Write(&page, events, violations))
	return page.String()
}

// TestWrite_IsOneFileForItself: nothing is fetched, and what a history says is text, whatever it looks like.
func TestWrite_IsOneFileForItself(t *testing.T) {
	const name = `<script src="http://example.com/x">&'"`
	events := run(name, 3)
	page := written(t, events, []history.Violation{{Rule: "r", Name: name, Text: name, Events: events[4:5]}})
	require.NotRegexp(t, `(?i)<(script|link|img|iframe|object|image|use)\b`, page)
	require.NotRegexp(t, `(?i)(url\(|@import|xlink:|href="[^#])`, page)
	require.Contains(t, page, "&lt;script")
	require.Contains(t, page, "vacuum &lt;full&gt;")
}

// TestWrite_ViolationsLinkToTheirPlace: each one whose events are drawn, once, in a slice that is open.
func TestWrite_ViolationsLinkToTheirPlace(t *testing.T) {
	events := run("a", 20)
	var violations []history.Violation
	for i, e := range events {
		if i%100 == 5 {
			violations = append(violations, history.Violation{Rule: "r", Name: "a", Text: "wrong", Events: []history.Event{e}})
		}
	}
	require.Greater(t, len(violations), 10)
	violations = append(violations, history.Violation{Rule: "r", Text: "of no place"})
	page := written(t, events, violations)
	for i := range len(violations) - 1 {
		require.Equal(t, 1, strings.Count(page, fmt.Sprintf(`href="#v%d"`, i+1)), i+1)
		require.Equal(t, 1, strings.Count(page, fmt.Sprintf(` id="v%d"`, i+1)), i+1)
	}
	require.NotContains(t, page, fmt.Sprintf(`"#v%d"`, len(violations)), "it has no place")
	require.Contains(t, page, "of no place")
	closed := regexp.MustCompile(`(?s)<details class="slice" id="s\d+"><summary>.*?</details>`)
	for _, slice := range closed.FindAllString(page, -1) {
		require.NotContains(t, slice, `class="ring"`)
	}
}

// TestWrite_DrawsWhatThereIs: a lane for each name and client, terms, writes, and the samples of trust of a term as one bar.
func TestWrite_DrawsWhatThereIs(t *testing.T) {
	page := written(t, run("a", 4), nil)
	for _, text := range []string{"name &#34;a&#34;", "client c1", "client c2", "faults", "no violation in 4.0 s"} {
		require.Contains(t, page, text)
	}
	_, slices, found := strings.Cut(page, `<details class="slice"`)
	require.True(t, found)
	for class, number := range map[string]int{
		"term ended": 4, "renewal": 4, "write": 4, "freed": 4, "trusts": 4, "answer granted": 4, "wrote": 4,
		"release released": 4, "fault": 2, "hit": 1, "calm": 1, "note": 4,
	} {
		require.Equal(t, number, strings.Count(slices, `<g class="`+class+`">`), class)
	}
}

// TestWrite_StaysUsable: a run of 15 minutes with 80,000 events is drawn around its violations alone.
func TestWrite_StaysUsable(t *testing.T) {
	events := run("a", 900)
	require.Greater(t, len(events), 70_000)
	page := written(t, events, []history.Violation{{Rule: "r", Name: "a", Text: "wrong", Events: events[50_000:50_001]}})
	require.Equal(t, 3, strings.Count(page, `<details class="slice"`))
	require.Less(t, len(page), 1_000_000)
	require.Less(t, len(written(t, events[:10_000], nil)), 1_000_000)
}

// TestWrite_EmptyHistory: what was killed at once is drawn, too.
func TestWrite_EmptyHistory(t *testing.T) {
	require.Contains(t, written(t, nil, nil), "no violation in 0.0 s")
}
