package torture_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/torture"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// envRun has the test binary be a run that starts the named client program, and waits to be killed.
const envRun = "LEASEHOLD_TORTURE_RUN"

func TestMain(m *testing.M) {
	if program := os.Getenv(envRun); program != "" {
		beRun(program)
	}
	pgtest.Main(m)
}

func beRun(program string) {
	pid, err := torture.StartClient(program, protocol.Setup{
		Label: "c1.1", DSN: "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable", Schema: "public",
		File:  program + ".jsonl",
		Names: []string{"a"}, MinTTL: time.Second, MaxTTL: time.Second, Watch: time.Second, Stand: time.Second,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(pid)
	time.Sleep(time.Minute)
}

// TestClient_EndsWithItsRun, however that ends, and also if it is stopped at that time.
func TestClient_EndsWithItsRun(t *testing.T) {
	t.Parallel()
	program, err := torture.BuildClient(t.Context(), t.TempDir())
	require.NoError(t, err)
	for _, stopped := range []bool{false, true} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envRun+"="+program)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		// It asks the kernel for its end before it opens its file.
		require.Eventually(t, func() bool { return os.Remove(program+".jsonl") == nil }, time.Minute, 5*time.Millisecond)
		if stopped {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.Eventually(t, func() bool { return !running(pid) }, time.Minute, 5*time.Millisecond)
	}
}

// running is false for a zombie, too: whoever has inherited it may leave it so.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil // There is no /proc, or no process.
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}
