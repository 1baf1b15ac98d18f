package model

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Verdict is what the checker says.
type Verdict struct {
	// Violated is the assertion that failed first, an invariant's name or the expression; empty if none did.
	Violated string
	// Complete is true if every state within the bounds was looked at.
	Complete bool
	// Why it is not complete.
	Why    string
	States int64
	Depth  int
	Memory float64 // megabytes
	// Reached are the goals that a verification came by, sorted.
	Reached []int
	Took    time.Duration // of the search, without compiling
}

var (
	summary  = regexp.MustCompile(`(?m)^State-vector (\d+) byte, depth reached (\d+), errors: (\d+)`)
	stored   = regexp.MustCompile(`(?m)^\s*([0-9.e+]+) states, stored`)
	memory   = regexp.MustCompile(`(?m)^\s*([0-9.]+)\s+total actual memory usage`)
	violated = regexp.MustCompile(`(?m)^pan:\d+: (?:assertion violated )?(.+?) \(at depth \d+\)`)
	goals    = regexp.MustCompile(`(?m)^reached (\d+)$`)
	whole    = regexp.MustCompile(`(?m)^(Full|Bit) statespace search for:`)
	asserts  = regexp.MustCompile(`(?m)^\s*assertion violations\s+\+`)
)

// incomplete are the checker's words for a search that left something out. Only the first is about a bound of ours.
var incomplete = []string{
	"max search depth too small",
	"Search not completed",
	"out of memory",
	"reached -DMEMLIM bound",
	"time limit",
	"VECTORSZ is too small",
	"Bit statespace search",
}

// parse reads the output of pan. What it does not know for certain is an error, and never a verdict.
func parse(out string) (Verdict, error) {
	var v Verdict
	head := summary.FindStringSubmatch(out)
	count := stored.FindStringSubmatch(out)
	used := memory.FindStringSubmatch(out)
	if head == nil || count == nil || used == nil || !whole.MatchString(out) {
		return v, errors.New("no summary of the search")
	}
	if !asserts.MatchString(out) {
		return v, errors.New("assertions were not checked")
	}
	v.Depth, _ = strconv.Atoi(head[2])
	failures, _ := strconv.Atoi(head[3])
	states, err := strconv.ParseFloat(count[1], 64)
	if err != nil || states < 1 {
		return v, fmt.Errorf("%q states", count[1])
	}
	v.States = int64(states)
	v.Memory, _ = strconv.ParseFloat(used[1], 64)
	for _, goal := range goals.FindAllStringSubmatch(out, -1) {
		number, _ := strconv.Atoi(goal[1])
		v.Reached = append(v.Reached, number)
	}
	slices.Sort(v.Reached)
	match := violated.FindStringSubmatch(out)
	if (match != nil) != (failures > 0) {
		return v, fmt.Errorf("%d errors, of which it names %q", failures, match)
	}
	if match != nil {
		v.Violated = strings.Trim(match[1], "()")
		v.Why = "it ended at the violation"
		return v, nil
	}
	for _, words := range incomplete {
		if strings.Contains(out, words) {
			v.Why = words
			return v, nil
		}
	}
	v.Complete = true
	return v, nil
}
