package model

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// two searches at a time: the machine may have no more cores, and a search takes one, and memory.
var two = make(chan struct{}, 2)

// run asks the checker, or skips the test if it is not there.
func run(t *testing.T, s Search) (v Verdict, dir string) {
	t.Helper()
	if missing := Programs(); missing != "" {
		pgtest.Skip(t, missing+" is not installed")
	}
	two <- struct{}{}
	defer func() { <-two }()
	dir = t.TempDir()
	v, err := s.Run(t.Context(), dir)
	require.NoError(t, err)
	t.Logf("%s: %d states, depth %d, %.0f MB, %v; complete: %t %s; violated: %q; goals: %d",
		s.Name, v.States, v.Depth, v.Memory, v.Took, v.Complete, v.Why, v.Violated, len(v.Reached))
	return v, dir
}

func full() bool { return os.Getenv("LEASEHOLD_MODEL") == "full" }

// TestModel_HoldsWithinItsBoundsAndReachesEveryGoal: each configuration is searched whole, no assertion fails, and together they
// come by every state that the model is about. LEASEHOLD_MODEL=full adds the larger bounds.
func TestModel_HoldsWithinItsBoundsAndReachesEveryGoal(t *testing.T) {
	t.Parallel()
	searches, sought := Short(), Sought()
	switch {
	case full():
		searches = append(searches, Full()...)
	case raceDetector:
		searches, sought = searches[:1], nil
	}
	var mu sync.Mutex
	var reached []int
	t.Run("configurations", func(t *testing.T) {
		for _, s := range searches {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				v, _ := run(t, s)
				require.Empty(t, v.Violated)
				if s.Bits == 0 {
					require.True(t, v.Complete, v.Why)
				}
				mu.Lock()
				defer mu.Unlock()
				reached = append(reached, v.Reached...)
			})
		}
		for _, g := range sought {
			t.Run("reaches "+g.Name, func(t *testing.T) {
				t.Parallel()
				v, _ := run(t, g.Search())
				require.Equal(t, fmt.Sprintf("%d!=%[1]d", g.Search().Goal), v.Violated)
				mu.Lock()
				defer mu.Unlock()
				reached = append(reached, numbers("goals")[g.Name])
			})
		}
	})
	goals := numbers("goals")
	require.Len(t, goals, 43)
	if raceDetector && !full() {
		return
	}
	for name, goal := range goals {
		require.True(t, slices.Contains(reached, goal), "no configuration reaches %s", name)
	}
}

// TestModel_EveryMistakeIsFound: what the checker does not find in a model with a mistake, it would not find in the protocol.
func TestModel_EveryMistakeIsFound(t *testing.T) {
	t.Parallel()
	bugs := numbers("bugs")
	for i, m := range Mistakes() {
		require.Positive(t, bugs[m.Name], m.Name)
		delete(bugs, m.Name)
		if raceDetector && !full() && i > 1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			v, dir := run(t, m.Search())
			require.Equal(t, m.Violates, v.Violated, "complete: %t", v.Complete)
			story, err := m.Search().Story(t.Context(), dir)
			require.NoError(t, err)
			require.Contains(t, story, "text of failed assertion: assert("+m.Violates+")")
			if full() {
				t.Log(story)
			}
		})
	}
	require.Empty(t, bugs, "these are in lease.pml, and nobody looks for them")
	for _, invariant := range []string{"I1", "I2", "I3", "I4", "I6", "I9", "I10"} {
		require.True(t, slices.ContainsFunc(Mistakes(), func(m Mistake) bool { return strings.HasPrefix(m.Violates, invariant+"_") }), invariant)
	}
}

// TestSearch_ABrokenModelIsNoVerdict: what Spin or the compiler refuse is an error, not a model without a violation.
func TestSearch_ABrokenModelIsNoVerdict(t *testing.T) {
	if missing := Programs(); missing != "" {
		pgtest.Skip(t, missing+" is not installed")
	}
	for _, flag := range []string{"-DTTL=(", "-DCLIENTS=nobody"} {
		_, err := Search{Name: "broken", Flags: []string{flag}, Depth: 100}.Run(context.Background(), t.TempDir())
		require.ErrorContains(t, err, "spin -a of broken", flag)
	}
}

// TestSearch_ATooSmallDepthIsIncomplete: a search that was cut off proves nothing, and says so.
func TestSearch_ATooSmallDepthIsIncomplete(t *testing.T) {
	t.Parallel()
	v, _ := run(t, Search{Name: "shallow", Flags: with(), Bug: 0, Goal: 0, Depth: 300})
	require.Empty(t, v.Violated)
	require.False(t, v.Complete)
	require.Equal(t, "max search depth too small", v.Why)
}
