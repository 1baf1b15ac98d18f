package control

import (
	"fmt"
	"io"
	"slices"
)

// A Report is all rounds of a run.
type Report struct{ Rounds []Round }

// Sum adds up the rounds of a regime and some faults.
func (r *Report) Sum(regime string, faults ...Fault) (sum Round, rounds int) {
	sum.Regime = regime
	for _, x := range r.Rounds {
		if x.Regime != regime || !slices.Contains(faults, x.Fault) {
			continue
		}
		rounds++
		sum.Fault = x.Fault
		sum.Pauses += x.Pauses
		sum.Grants += x.Grants
		sum.Acknowledged += x.Acknowledged
		sum.Overlaps += x.Overlaps
		sum.Stale += x.Stale
		sum.Lost += x.Lost
		sum.Refused += x.Refused
		sum.GaveUp += x.GaveUp
		sum.Unknown += x.Unknown
	}
	return sum, rounds
}

// Write writes the tables, as Markdown: what was let through by step, then all counts, pauses first.
func (r *Report) Write(out io.Writer) {
	var pauses []Fault
	for _, s := range Steps() {
		pauses = append(pauses, Pause(s))
	}
	fmt.Fprint(out, "Stale commits / lost updates, by where the holder was paused past the expiry:\n\n",
		"| regime | rounds each | before it asks | after it asked | before COMMIT | COMMIT under way |\n|---|---|---|---|---|---|\n")
	for _, g := range Regimes() {
		_, rounds := r.Sum(g.Name, pauses[0])
		fmt.Fprintf(out, "| %s | %d |", g.Name, rounds)
		for _, f := range pauses {
			sum, _ := r.Sum(g.Name, f)
			fmt.Fprintf(out, " %d / %d |", sum.Stale, sum.Lost)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprint(out, "\nAll of them:\n\n")
	heading(out, "regime")
	for _, g := range Regimes() {
		r.line(out, g.Name, g.Name, pauses...)
	}
	fmt.Fprint(out, "\nNo pause; what has the lock restarts:\n\n")
	heading(out, "regime, restart")
	for _, f := range []Fault{RestartAtOnce, RestartLater, RestartDurable} {
		for _, g := range RestartRegimes() {
			r.line(out, g.Name+", "+string(f), g.Name, f)
		}
	}
	for _, g := range DatabaseRegimes() {
		r.line(out, g.Name+", "+string(RestartDatabase), g.Name, RestartDatabase)
	}
}

func heading(out io.Writer, first string) {
	fmt.Fprintf(out, "| %s | rounds | pauses | grants | acknowledged | overlaps | stale commits | lost updates | "+
		"refused by the fence | gave up itself | unknown |\n|---|---|---|---|---|---|---|---|---|---|---|\n", first)
}

func (r *Report) line(out io.Writer, title, regime string, faults ...Fault) {
	s, n := r.Sum(regime, faults...)
	fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n",
		title, n, s.Pauses, s.Grants, s.Acknowledged, s.Overlaps, s.Stale, s.Lost, s.Refused, s.GaveUp, s.Unknown)
}
