//go:build unix

package clock_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/torture/clock"
)

// envPrint has the test binary print its clock.
const envPrint = "LEASEHOLD_CLOCK_PRINT"

func TestMain(m *testing.M) {
	if os.Getenv(envPrint) != "" {
		os.Stdout.WriteString(strconv.FormatInt(clock.Now(), 10))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestNow_IsOneClockForAllProcesses: another process's time lies between two of ours.
func TestNow_IsOneClockForAllProcesses(t *testing.T) {
	t.Parallel()
	before := clock.Now()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envPrint+"=1")
	out, err := cmd.Output()
	require.NoError(t, err)
	theirs, err := strconv.ParseInt(string(out), 10, 64)
	require.NoError(t, err)
	require.Less(t, before, theirs)
	require.Less(t, theirs, clock.Now())
}

// TestNow_IsWhatProcUptimeShows, in steps of 10 ms: the recording triggers of a database read that.
func TestNow_IsWhatProcUptimeShows(t *testing.T) {
	t.Parallel()
	before := clock.Now()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return // Not Linux: nobody reads it.
	}
	after := clock.Now()
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, int64(seconds*1e6), before-10_000)
	require.LessOrEqual(t, int64(seconds*1e6), after)
}
