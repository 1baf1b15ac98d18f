package fieldcases_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envRole makes the test binary play the part of another program, see roles.
const envRole = "LEASEHOLD_FIELD_CASE"

// roles are what a process of a test can be; each is beside its case. They return the exit code.
var roles = map[string]func() int{
	"panic":  rolePanic,
	"server": roleServer,
	"wait":   roleWait,
}

func play(role string) int {
	go func() { // The test holds the other end: a process does not outlive it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		orphaned()
		os.Exit(99)
	}()
	return roles[role]()
}

// orphaned runs when the test is done with the process. A role with something to clean up replaces it.
var orphaned = func() {}

// A process is the test binary in a role.
type process struct {
	cmd   *exec.Cmd
	lines chan string // of its standard output
	done  chan struct{}
}

// start runs a process until it ends or the test does.
func start(t testing.TB, role string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), envRole+"="+role), env...)
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	p.cmd.Stderr = &stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait() // The exit code is in ProcessState.
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		if !p.ends(10 * time.Second) {
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if t.Failed() {
			t.Logf("%s: %s", role, stderr.String())
		}
	})
	return p
}

func (p *process) ends(within time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(within):
		return false
	}
}

// line waits for a line that begins with prefix and returns the rest.
func (p *process) line(t testing.TB, prefix string) string {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			require.True(t, ok, "the process ended before it said %q", prefix)
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest
			}
		case <-limit:
			require.Fail(t, "the process did not say "+prefix)
		}
	}
}

// code waits for the end and returns the exit code, -1 after a signal.
func (p *process) code(t testing.TB) int {
	t.Helper()
	require.True(t, p.ends(patience), "the process did not end")
	return p.cmd.ProcessState.ExitCode()
}

// say prints a line that a test waits for.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// failed tells the test why a process ends.
func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

var errNoRole = errors.New("the environment says too little")
