package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// complete is what pan prints of a search that looked at everything and found nothing.
const complete = `
reached 10
reached 2

(Spin Version 6.5.2 -- 6 December 2019)
	+ Partial Order Reduction
	+ Compression

Full statespace search for:
	never claim         	- (none specified)
	assertion violations	+
	cycle checks       	- (disabled by -DSAFETY)
	invalid end states	+

State-vector 180 byte, depth reached 955, errors: 0
    19426 states, stored
    56117 states, matched
    75543 transitions (= stored+matched)
Stats on memory usage (in Megabytes):
    3.853	equivalent memory usage for states (stored*(State-vector + overhead))
   40.466	total actual memory usage

pan: elapsed time 0.05 seconds
`

func TestVerdict_OfACompleteSearch(t *testing.T) {
	v, err := parse(complete)
	require.NoError(t, err)
	require.Equal(t, Verdict{Complete: true, States: 19426, Depth: 955, Memory: 40.466, Reached: []int{2, 10}}, v)
}

// TestVerdict_OfABitstateSearchIsNeverComplete: hashes collide.
func TestVerdict_OfABitstateSearchIsNeverComplete(t *testing.T) {
	v, err := parse(strings.Replace(complete, "Full statespace", "Bit statespace", 1))
	require.NoError(t, err)
	require.False(t, v.Complete)
	v, err = parse(strings.Replace(complete, "19426 states", "3.456e+08 states", 1))
	require.NoError(t, err)
	require.EqualValues(t, 345600000, v.States)
}

func TestVerdict_NamesTheInvariant(t *testing.T) {
	found := strings.Replace(complete, "errors: 0", "errors: 1", 1)
	for line, name := range map[string]string{
		"pan:1: assertion violated I1_TokensRise (at depth 347)": "I1_TokensRise",
		"pan:1: assertion violated (33!=33) (at depth 347)":      "33!=33",
		"pan:1: invalid end state (at depth 12)":                 "invalid end state",
	} {
		v, err := parse(line + "\npan: wrote lease.pml.trail\n" + found + "Warning: Search not completed\n")
		require.NoError(t, err)
		require.Equal(t, name, v.Violated)
		require.False(t, v.Complete)
	}
}

func TestVerdict_SaysWhyItIsIncomplete(t *testing.T) {
	for _, line := range []string{
		"error: max search depth too small",
		"Warning: Search not completed",
		"pan: out of memory",
		"pan: reached -DMEMLIM bound",
	} {
		v, err := parse(line + complete)
		require.NoError(t, err)
		require.False(t, v.Complete, line)
		require.NotEmpty(t, v.Why)
	}
}

// TestVerdict_OfWhatIsNotUnderstoodIsAnError: silence is no proof.
func TestVerdict_OfWhatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, out := range []string{
		"",
		"pan: out of memory",
		strings.Replace(complete, "assertion violations	+", "assertion violations	- (disabled by -A flag)", 1),
		strings.Replace(complete, "errors: 0", "errors: 1", 1), // of which nothing is said
		"pan:1: assertion violated I1 (at depth 3)\n" + complete,
		strings.Replace(complete, "19426 states, stored", "0 states, stored", 1),
		strings.Replace(complete, "Full statespace search for:", "", 1),
	} {
		_, err := parse(out)
		require.Error(t, err, out)
	}
}
