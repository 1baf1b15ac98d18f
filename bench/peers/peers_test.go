package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestRun_MeasuresEachPeer in a run as short as can be.
func TestRun_MeasuresEachPeer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		pgtest.Skip(t, "redis-server is not installed")
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, false, 1, 10*time.Millisecond))
	for _, name := range []string{
		"floor, from Go", "Leasehold", "pgx, advisory lock by hand", "allisson/go-pglock", "cirello.io/pglock",
		"go-redsync/redsync, 3 nodes in memory", "go-redsync/redsync, 3 nodes, fsync always", "bsm/redislock, 1 node in memory",
	} {
		require.Regexp(t, `(?m)^\| `+name+` \| [1-9]\d* \(`, out.String())
	}
}

// TestScale_WeighsWhatACycleCosts, whatever else the machine does: the grant is flushed, the release is not.
func TestScale_WeighsWhatACycleCosts(t *testing.T) {
	t.Parallel()
	s, err := openScale(t.Context(), nil, nil)
	if err != nil {
		pgtest.Skip(t, "a server of its own is needed: "+err.Error())
	}
	t.Cleanup(func() { require.NoError(t, s.close(context.Background())) })
	_, c, err := s.weigh(t.Context(), openLeasehold, 60)
	require.NoError(t, err)
	require.InDelta(t, 2, c.transactions, 0.4)
	require.InDelta(t, 1, c.flushes, 0.4)
	require.Greater(t, c.wal, 100.0)

	_, c, err = s.weigh(t.Context(), openSession, 60)
	require.NoError(t, err)
	require.InDelta(t, 0, c.flushes, 0.4)
}

func TestDrive_CountsErrorsApart(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	calls := 0
	rate, failed, err := drive(t.Context(), peer{name: "p", cycle: func(context.Context, int) error {
		time.Sleep(time.Millisecond)
		if calls++; calls%2 == 0 {
			return boom
		}
		return nil
	}}, 1, 50*time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, rate)
	require.Equal(t, calls/2, failed)

	_, _, err = drive(t.Context(), peer{name: "p", cycle: func(context.Context, int) error { return boom }}, 1, time.Millisecond)
	require.ErrorIs(t, err, boom)
}

func TestResults_RatiosAreOfOneRound(t *testing.T) {
	t.Parallel()
	r := &results{rates: map[place][]float64{}, errors: map[string]int{"other": 2}}
	for _, clients := range crowds {
		// The machine is ten times slower in the second round, and the ratio is 2, 0.5 and 1.
		r.rates[place{"floor", clients}] = []float64{100, 10, 100}
		r.rates[place{"other", clients}] = []float64{200, 5, 100}
	}
	var out strings.Builder
	r.write(&out, []peer{{name: "floor"}, {name: "other"}})
	require.Contains(t, out.String(), "| floor | 100 (1.00, 1.00–1.00) |")
	require.Contains(t, out.String(), "| other | 100 (1.00, 0.50–2.00) |")
	require.Contains(t, out.String(), "| 2 |\n")
}
