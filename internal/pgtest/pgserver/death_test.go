package pgserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// left is what a child tells about its server before it ends.
type left struct {
	Folder     string
	Postmaster int
	Janitor    int
}

// child starts a server and ends as it is told to, never by Close.
func child(end string) {
	if end == endOfDisk {
		childWithDisk()
	}
	server, err := startBinaries(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	c := server.engine.(*cluster)
	told := left{c.folder.path, c.postmaster.pid(), c.folder.janitor.process.pid()}
	if end == "killed while paused" {
		_ = server.Pause()
	}
	_ = json.NewEncoder(os.Stdout).Encode(told)
	switch end {
	case "exit":
		os.Exit(0)
	case "panic":
		go func() { panic("on purpose") }()
	}
	time.Sleep(time.Minute)
}

func TestServer_EndsWithItsProgram(t *testing.T) {
	t.Parallel()
	local(t, Options{})
	for _, end := range []string{"exit", "panic", "killed", "killed while paused", "interrupted"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envChild+"="+end)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var told left
			line, err := bufio.NewReader(out).ReadBytes('\n')
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(line, &told))
			switch end {
			case "killed", "killed while paused":
				require.NoError(t, cmd.Process.Kill())
			case "interrupted":
				require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			}
			_ = cmd.Wait()
			requireGone(t, told.Folder, told.Postmaster, told.Janitor)
		})
	}
}

// TestServer_EndsEvenDuringInitdb kills the program at moments spread over the start of its server.
func TestServer_EndsEvenDuringInitdb(t *testing.T) {
	t.Parallel()
	local(t, Options{})
	root, err := os.MkdirTemp("", "pgserver-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o777))
	for wait := 100 * time.Millisecond; wait < time.Second; wait += 150 * time.Millisecond {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envChild+"=killed", "TMPDIR="+root)
		require.NoError(t, cmd.Start())
		time.Sleep(wait)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.Eventually(t, func() bool {
			left, err := os.ReadDir(root)
			return err == nil && len(left) == 0
		}, 15*time.Second, 10*time.Millisecond, "after %s", wait)
	}
}
