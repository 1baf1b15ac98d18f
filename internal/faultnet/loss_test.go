package faultnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProxy_LossIsLateAndLosesNothing: everything arrives, in order, and what was lost comes after a retransmission timeout.
func TestProxy_LossIsLateAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := startEcho(t)
	p := Listen(t, server.address())
	conn := dial(t, p)
	send(t, conn, "a")
	receive(t, conn, "a")
	p.Set(Mode{Requests: Lossy(1, 7)}) // Each is lost as often as it can be.
	started := time.Now()
	send(t, conn, "bc")
	send(t, conn, "d")
	silent(t, conn)
	p.Set(Pass()) // What is late comes at once: TCP would send it with what comes next.
	receive(t, conn, "bcd")
	require.Equal(t, "abcd", server.received())

	p.Set(Loss(0, 7))
	send(t, conn, "e")
	receive(t, conn, "e")
	require.Greater(t, time.Since(started), time.Duration(0))
}

// TestLoss_DelaysAreRetransmissionTimeouts, which double, and the seed gives them.
func TestLoss_DelaysAreRetransmissionTimeouts(t *testing.T) {
	t.Parallel()
	a, b := newLoss(0.5, 7), newLoss(0.5, 7)
	seen := map[time.Duration]int{}
	for range 1000 {
		late := a.delay()
		require.Equal(t, late, b.delay())
		seen[late]++
	}
	for late := range seen {
		require.Contains(t, []time.Duration{0, 200 * time.Millisecond, 600 * time.Millisecond, 1400 * time.Millisecond,
			3 * time.Second, 6200 * time.Millisecond}, late)
	}
	require.InDelta(t, 500, seen[0], 100)
	require.InDelta(t, 250, seen[200*time.Millisecond], 80)
	require.Equal(t, 6200*time.Millisecond, newLoss(1, 7).delay())
	require.Zero(t, newLoss(0, 7).delay())
}
