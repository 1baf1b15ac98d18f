package stage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// envProgram makes the test binary a program with a stage.
const envProgram = "LEASEHOLD_STAGE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		program()
		return
	}
	pgtest.Main(m)
}

// program has a frozen child on its stage, and waits to be killed.
func program() {
	s, err := Open()
	if err != nil {
		panic(err)
	}
	child := exec.Command("sleep", "600")
	if err := s.Start(child); err != nil {
		panic(err)
	}
	_ = child.Process.Signal(syscall.SIGSTOP)
	fmt.Println(s.folder, child.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestStage_NothingOutlivesAKilledProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envProgram+"=1")
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var folder string
	var child int
	_, err = fmt.Sscan(line, &folder, &child)
	require.NoError(t, err)
	require.DirExists(t, folder)
	require.True(t, running(child))

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && !running(child)
	}, 30*time.Second, 20*time.Millisecond)
}

// running is false for a zombie, which may wait for its parent for long in a container.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func TestNode_OnlyTheDiskOutlivesACrash(t *testing.T) {
	t.Parallel()
	s, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for name, c := range map[string]struct {
		settings []string
		want     string
	}{"memory": {InMemory(), ""}, "disk": {OnDisk(), "here"}} {
		nodes, err := s.StartNodes(t.Context(), name, c.settings)
		t.Cleanup(func() {
			for _, n := range nodes {
				n.Kill()
			}
		})
		if errors.Is(err, ErrNoRedis) {
			pgtest.Skip(t, err.Error())
		}
		require.NoError(t, err)
		require.Len(t, nodes, 3)
		require.NoError(t, withClient(nodes[0], func(c *goredislib.Client) error {
			return c.Set(t.Context(), "lock", "here", time.Minute).Err()
		}))
		nodes[0].Kill()
		require.NoError(t, nodes[0].Start(t.Context()))
		require.NoError(t, withClient(nodes[0], func(client *goredislib.Client) error {
			got, err := client.Get(t.Context(), "lock").Result()
			require.Equal(t, c.want, got)
			if c.want == "" {
				require.ErrorIs(t, err, goredislib.Nil)
				return nil
			}
			return err
		}))
	}
	entries, err := filepath.Glob(filepath.Join(s.folder, "*"))
	require.NoError(t, err)
	require.Len(t, entries, 6)
}

func withClient(n *Node, use func(*goredislib.Client) error) error {
	client := goredislib.NewClient(&goredislib.Options{Network: "unix", Addr: n.Socket()})
	defer client.Close()
	return use(client)
}
