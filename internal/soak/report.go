package soak

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Report is the outcome of a [Run].
type Report struct {
	Options  Options
	Server   string // version
	Started  time.Time
	Samples  []Sample
	Findings []Finding
	Left     []string       // what was there after the load and should not have been
	Counts   map[string]int // of operations by outcome, and of events

	// StalePassed counts writes that the fence let through although a newer token had written.
	StalePassed int64
	// Other is the last error of an operation that is not accounted for; how many there were is among the counts.
	Other error
}

// Grown are the findings that exceed their bound.
func (r *Report) Grown() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return !f.Grew })
}

// Markdown is the report as it stands in docs/soak.md.
func (r *Report) Markdown(conditions ...string) string {
	var b strings.Builder
	last := r.Samples[len(r.Samples)-1]
	fmt.Fprintf(&b, "- PostgreSQL %s, %s %s/%s, %d processors, %s\n", r.Server, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), r.Started.UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "- %d workers and one more client, %v, seed %d, %d samples\n", r.Options.Workers, r.Options.Duration, r.Options.Seed, len(r.Samples))
	fmt.Fprintf(&b, "- %d operations, %.0f a second\n", last.Operations, float64(last.Operations)/last.At.Seconds())
	for _, c := range conditions {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	b.WriteString("\n| median | first quarter | second | third | last | last : second | bound |\n|---|---|---|---|---|---|---|\n")
	for _, f := range r.Findings {
		name, ratio, verdict := f.Metric, "", ""
		if f.Unit != "" {
			name += ", " + f.Unit
		}
		if f.Quarters[1] != 0 {
			ratio = fmt.Sprintf("%.2f", f.Quarters[3]/f.Quarters[1])
		}
		if f.Grew {
			verdict = " **exceeded**"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %s | %.0f%s |\n", name, f.Quarters[0], f.Quarters[1], f.Quarters[2], f.Quarters[3],
			ratio, f.Bound, verdict)
	}
	b.WriteString("\n| table | updates | HOT | automatic vacuums | size at the end, indexes |\n|---|---|---|---|---|\n")
	for _, t := range []struct {
		name string
		Table
	}{{"pglock_leases", last.Leases}, {"job_fences", last.Fences}} {
		fmt.Fprintf(&b, "| %s | %d | %.1f %% | %d | %d KiB, %d KiB |\n", t.name, t.Updates, 100*float64(t.HOT)/float64(max(1, t.Updates)),
			t.Vacuums, t.Table.Table/1024, t.Indexes/1024)
	}
	b.WriteString("\n| operation or event | how often |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, r.Counts[name])
	}
	fmt.Fprintf(&b, "\nWrites of a stale holder that passed: %d. Left after the load: %s.\n", r.StalePassed, orNothing(r.Left))
	if r.Other != nil {
		fmt.Fprintf(&b, "\nThe last error that is not accounted for: %v\n", r.Other)
	}
	return b.String()
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, "; ")
}
