package model

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Goal is a state that must be reachable: where it were not, the model would show nothing about it.
type Goal struct {
	Name  string // as lease.pml has it
	Flags []string
}

// Sought are the goals that are beyond the configurations of Short: each is looked for by itself, with an assertion that forbids
// it and has to fail.
func Sought() []Goal {
	return []Goal{
		{Name: "RESTORE_ENTERED", Flags: with("-DCLIENTS=1", "-DSERVERS=2", "-DRESTORES=1", "-DDEPOSED=0")},
		{Name: "LOST_GRANT_WRITES", Flags: with("-DCLIENTS=1", "-DSERVERS=2", "-DDEPOSED=0", "-DWRITERS=1", "-DFENCED=1")},
	}
}

// Search looks for the goal.
func (g Goal) Search() Search {
	return Search{Name: g.Name, Flags: g.Flags, Goal: numbers("goals")[g.Name], Depth: 2000, Limit: 5 * time.Minute}
}

var definition = regexp.MustCompile(`(?m)^#define ([A-Z_]+)\s+(\d+)\b`)

// numbers are the definitions of one section of lease.pml: bugs or goals.
func numbers(section string) map[string]int {
	_, text, _ := strings.Cut(string(source), "/* ---- "+section)
	text, _, _ = strings.Cut(text, "\n#ifdef")
	text, _, _ = strings.Cut(text, "\n/* ----")
	found := map[string]int{}
	for _, match := range definition.FindAllStringSubmatch(text, -1) {
		found[match[1]], _ = strconv.Atoi(match[2])
	}
	return found
}
