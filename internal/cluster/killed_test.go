//go:build linux

package cluster_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/cluster"
)

// envKilled has the test binary be a program that is killed.
const envKilled = "LEASEHOLD_CLUSTER_KILLED"

func TestCluster_NothingIsLeftOfAKilledProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envKilled+"=1")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	folder := strings.TrimSpace(line)
	require.Eventually(t, func() bool { return len(cluster.Living(folder)) == 2 }, patience, 10*time.Millisecond, folder)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && len(cluster.Living(folder)) == 0
	}, patience, 10*time.Millisecond)
}
