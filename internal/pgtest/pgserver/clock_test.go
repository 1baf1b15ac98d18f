package pgserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClock_SetsTheServersClockInBothDirections, while it runs, for sessions that are open, and for a server that was
// started again.
func TestClock_SetsTheServersClockInBothDirections(t *testing.T) {
	t.Parallel()
	clock, err := NewClock()
	if err != nil {
		skip(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, clock.Close()) })
	server, _ := local(t, Options{Environment: clock.Environment()})
	conn := connect(t, server.DSN())
	// off lies between two looks at the true clock, however long the machine takes.
	requireOff := func(want time.Duration) {
		t.Helper()
		before := time.Now().Round(0)
		theirs := ask[time.Time](t, conn, "SELECT clock_timestamp()")
		require.WithinRange(t, theirs, before.Add(want-time.Millisecond), time.Now().Round(0).Add(want+time.Millisecond))
	}
	requireOff(0)
	for _, off := range []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond, -1500 * time.Millisecond} {
		require.NoError(t, clock.Set(off))
		requireOff(off)
	}
	require.NoError(t, server.Restart())
	conn = connect(t, server.DSN())
	requireOff(-1500 * time.Millisecond)
	require.NoError(t, clock.Set(0))
	requireOff(0)
}
