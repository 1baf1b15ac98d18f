package torture

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// everything has all that faults need.
var everything = Options{
	Seed: 7, Server: &pgserver.Server{}, Pooler: &pgserver.Bouncer{}, Clock: &pgserver.Clock{}, Disk: &pgserver.Disk{},
}

// TestFaults_SeedReproducesThem, with the same arguments, however many numbers a fault draws.
func TestFaults_SeedReproducesThem(t *testing.T) {
	t.Parallel()
	decisions := func(seed uint64, greedy bool) (list []string) {
		options := everything
		options.Seed = seed
		n := newNemesis(&run{options: options}, network, 1)
		for i := range 100 {
			quiet, f, d := n.next()
			list = append(list, fmt.Sprint(quiet, f.name, d.Between(0, time.Second)))
			if greedy {
				for range i {
					d.Int64()
				}
			}
		}
		return list
	}
	require.Equal(t, decisions(7, false), decisions(7, true))
	require.NotEqual(t, decisions(7, false), decisions(8, false))
}

// TestFaults_EachHasItsTurn in the first round of its nemesis, and none is in two lists.
func TestFaults_EachHasItsTurn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, where := range places {
		n := newNemesis(&run{options: everything}, where, 1)
		sum := 0
		for _, f := range n.faults {
			sum += f.weight
		}
		for range sum {
			_, f, _ := n.next()
			seen[f.name] = true
		}
	}
	require.Len(t, seen, len(faults))
	require.Len(t, everything.TakesPart(), len(faults))
}

// TestFaults_OnlyThoseThatAreNamedAndCan.
func TestFaults_OnlyThoseThatAreNamedAndCan(t *testing.T) {
	t.Parallel()
	require.NotContains(t, Options{}.TakesPart(), restartFast.name)
	require.NotContains(t, Options{}.TakesPart(), poolerRestart.name)
	options := Options{Faults: []string{restartFast.name, reset.name}}
	require.Equal(t, []string{reset.name}, options.TakesPart())
	require.NoError(t, options.check())
	require.Nil(t, newNemesis(&run{options: options}, process, 1))
	require.ErrorContains(t, Options{Faults: []string{"rest"}}.check(), `no fault "rest"`)
	require.ErrorContains(t, Options{Faults: []string{restartFast.name}}.check(), "can take part")
}

// TestFaults_AreInTheDocument: the table of docs/torture.md names each fault, and no other.
func TestFaults_AreInTheDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/torture.md")
	require.NoError(t, err)
	var documented, there []string
	for _, row := range regexp.MustCompile(`(?m)^\| [a-z ]*\| ([a-z ,;]+) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, name := range strings.FieldsFunc(row[1], func(r rune) bool { return r == ',' || r == ';' }) {
			documented = append(documented, strings.TrimSpace(name))
		}
	}
	documented = slices.DeleteFunc(documented, func(name string) bool { return name == "fault" }) // The heading.
	for _, f := range faults {
		there = append(there, f.name)
	}
	require.ElementsMatch(t, there, documented)
}
