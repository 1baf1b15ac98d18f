package control_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/bench/internal/control"
	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// envRounds is how many rounds of each regime and fault there are.
const envRounds = "LEASEHOLD_CONTROLS"

func TestMain(m *testing.M) {
	if os.Getenv(control.EnvWorker) != "" {
		if err := control.RunWorker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// TestControls_OnlyTheFenceLetsNothingStaleThrough is one run, looked at from all sides. What is not asserted is a race: a
// context that ends at the moment when its process wakes up.
func TestControls_OnlyTheFenceLetsNothingStaleThrough(t *testing.T) {
	t.Parallel()
	rounds := 1
	if text := os.Getenv(envRounds); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	// Longer than the default: a holder that is not paused yet has to get to its step in time, on a busy machine, too.
	report, err := control.Run(t.Context(), control.Options{Program: os.Args[0], Rounds: rounds, TTL: 4 * time.Second})
	if errors.Is(err, stage.ErrNoRedis) || errors.Is(err, control.ErrNoServer) {
		pgtest.Skip(t, err.Error())
	}
	require.NoError(t, err)
	var table strings.Builder
	report.Write(&table)
	t.Log("\n" + table.String())

	sum := func(regime string, fault control.Fault) control.Round {
		s, n := report.Sum(regime, fault)
		require.Equal(t, rounds, n, "%s, %s", regime, fault)
		require.Equal(t, 2*n, s.Grants, "%s, %s: both were granted", regime, fault)
		require.Equal(t, 2*n, s.Acknowledged+s.Refused+s.GaveUp+s.Unknown, "%s, %s: both had their turn", regime, fault)
		return s
	}

	t.Run("the fence", func(t *testing.T) {
		for _, step := range control.Steps() {
			s := sum("Leasehold, fence", control.Pause(step))
			require.Zero(t, s.Stale, step)
			require.Zero(t, s.Lost, step)
			require.Zero(t, s.GaveUp+s.Unknown, step)
			// Before it has passed the fence the paused holder is refused; afterwards the grant waits for its transaction.
			want := 0
			if step == control.Read || step == control.Asked {
				want = rounds
			}
			require.Equal(t, want, s.Refused, step)
		}
	})
	t.Run("the controls", func(t *testing.T) {
		// From which step on a pause gets a stale commit through.
		for regime, from := range map[string]control.Step{
			"Leasehold, no fence":                    control.Read,
			"Leasehold, no fence, asks its lease":    control.Asked,
			"Leasehold, no fence, under its context": control.Commit,
			"Redlock":                                control.Read,
			"Redlock, asks Until":                    control.Asked,
			"Redlock, asks Valid":                    control.Asked,
			"Redlock, under a deadline of Until":     control.Commit,
		} {
			through := false
			for _, step := range control.Steps() {
				s := sum(regime, control.Pause(step))
				through = through || step == from
				switch {
				case through:
					require.Equal(t, rounds, s.Stale, "%s, %s", regime, step)
					require.Zero(t, s.Refused+s.GaveUp, "%s, %s", regime, step)
				case step == control.Read:
					require.Zero(t, s.Stale+s.Lost, "%s, %s", regime, step)
					require.Equal(t, rounds, s.GaveUp, "%s, %s", regime, step)
				}
				if through && from != control.Commit { // Else it is not known to the holder.
					require.Equal(t, rounds, s.Lost, "%s, %s", regime, step)
				}
			}
		}
	})
	t.Run("no lock was granted before the other had run out", func(t *testing.T) {
		for _, regime := range control.Regimes() {
			for _, step := range control.Steps() {
				require.Zero(t, sum(regime.Name, control.Pause(step)).Overlaps, "%s, %s", regime.Name, step)
			}
		}
	})
	t.Run("the database restarts", func(t *testing.T) {
		for _, regime := range control.DatabaseRegimes() {
			s := sum(regime.Name, control.RestartDatabase)
			require.Zero(t, s.Overlaps, regime.Name)
			if regime.Fenced { // Without, it is as after a pause if the server takes longer than the lease.
				require.Zero(t, s.Stale+s.Lost, regime.Name)
			}
		}
	})
	t.Run("a lock node restarts", func(t *testing.T) {
		for _, regime := range control.RestartRegimes() {
			s := sum(regime.Name, control.RestartAtOnce)
			require.Equal(t, rounds, s.Overlaps, regime.Name)
			for _, fault := range []control.Fault{control.RestartLater, control.RestartDurable} {
				s := sum(regime.Name, fault)
				require.Zero(t, s.Overlaps+s.Stale+s.Lost, "%s, %s", regime.Name, fault)
			}
		}
		s := sum("Redlock, asks Until", control.RestartAtOnce)
		require.Equal(t, rounds, s.Stale)
		require.Equal(t, rounds, s.Lost)
		s = sum("Redlock, asks Valid", control.RestartAtOnce)
		require.Zero(t, s.Stale+s.Lost)
		require.Equal(t, rounds, s.GaveUp)
	})
}
