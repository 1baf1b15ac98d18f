package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// program is the built example.
type program string

func build(t *testing.T) program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "invoicejob")
	out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program(file)
}

// A result is what a run of the program left.
type result struct {
	stdout, stderr string
	code           int
}

// limit bounds a run: "under a minute in all", and a loaded machine.
const limit = 2 * time.Minute

// command runs the program with nothing in the environment that tells of a server, but what is given.
func (p program) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, string(p), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // It has things to end.
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "DATABASE_URL", "LEASEHOLD_TEST_DSN", "TMPDIR":
		default:
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// onShared runs it in a schema of the shared server, with a short TTL.
func (p program) onShared(t *testing.T, dsn, schema string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	args = append([]string{"-schema", schema, "-ttl", "2s", "-renew", "500ms"}, args...)
	cmd := p.command(ctx, []string{"DATABASE_URL=" + dsn, "LEASEHOLD_TEST_SOURCE="}, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// figures reads the one JSON object of standard output, which has exactly the keys that are promised.
func (r result) figures(t *testing.T) summary {
	t.Helper()
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, 1, strings.Count(r.stdout, "\n"), r.stdout)
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &keys))
	for _, key := range []string{"invoices", "total", "gross", "orders", "tokens", "refused", "skipped"} {
		require.Contains(t, keys, key)
		delete(keys, key)
	}
	require.Empty(t, keys)
	var s summary
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &s))
	for i := 1; i < len(s.Tokens); i++ {
		require.Less(t, s.Tokens[i-1], s.Tokens[i], "tokens rise")
	}
	return s
}

func TestProgram(t *testing.T) {
	t.Parallel()
	p := build(t)
	northwind := []string{"-json", "-orders", northwind(t, "orders.csv"), "-lines", northwind(t, "order-details.csv"), "-batch", "60"}
	with := func(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }
	holds := func(t *testing.T, s summary) {
		t.Helper()
		require.Equal(t, summary{830, "1265793.22", "1354458.59", 830, s.Tokens, s.Refused, s.Skipped}, s)
	}

	t.Run("tells the story", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		r := p.onShared(t, dsn, schema, "-ttl", "5s") // So long that a slow machine loses no lease on its own.
		require.Zero(t, r.code, r.stderr)
		require.Empty(t, r.stderr)
		at := 0
		for _, part := range []string{
			"60 orders with 150 lines", "DATABASE_URL", "starts the job on 2 instances", "acquires the lease with token 1", "is frozen (SIGSTOP)",
			"takes over with token 2", "wakes up (SIGCONT)", "refuses token 1, being at 2: nothing is written", "60/60 orders", "releases the lease", "end of the term",
			"frozen, then refused by the fence", "orders 60   invoices 60 (60 new)", "total 149197.81   gross 154108.80",
			"Every order has exactly one invoice.",
		} {
			next := strings.Index(r.stdout[at:], part)
			require.GreaterOrEqual(t, next, 0, "%s must come, in this order:\n%s", part, r.stdout)
			at += next
		}
		for line := range strings.Lines(r.stdout) {
			require.LessOrEqual(t, len(line), 81, line)
		}
		require.NotContains(t, r.stdout, "\r", "no terminal, no bar that moves")
	})

	t.Run("figures hold when the holder is frozen, and again in a second run", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		s := p.onShared(t, dsn, schema, northwind...).figures(t)
		holds(t, s)
		require.GreaterOrEqual(t, len(s.Tokens), 2)
		require.GreaterOrEqual(t, s.Refused, 1)
		require.GreaterOrEqual(t, s.Skipped, 1)

		newest := newestInvoice(t, dsn, schema)
		r := p.onShared(t, dsn, schema, northwind...)
		second := r.figures(t)
		holds(t, second)
		require.Greater(t, second.Tokens[0], s.Tokens[len(s.Tokens)-1])
		require.Zero(t, second.Refused)
		require.Contains(t, r.stderr, "Every order had its invoice already: nothing was written.")
		require.Equal(t, newest, newestInvoice(t, dsn, schema))
	})

	t.Run("figures hold when one holder is frozen and the next is killed", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		r := p.onShared(t, dsn, schema, with(northwind, "-kill", "-instances", "3")...)
		s := r.figures(t)
		holds(t, s)
		require.GreaterOrEqual(t, len(s.Tokens), 3)
		require.GreaterOrEqual(t, s.Refused, 1)
		require.Contains(t, r.stderr, "is killed (kill -9)")
	})

	t.Run("figures hold when the only instance is killed", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		s := p.onShared(t, dsn, schema, with(northwind, "-kill", "-instances", "1")...).figures(t)
		holds(t, s)
		require.GreaterOrEqual(t, len(s.Tokens), 2)
		require.Zero(t, s.Refused)
	})

	t.Run("one token if nothing happens", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		s := p.onShared(t, dsn, schema, with(northwind, "-freeze=false")...).figures(t)
		holds(t, s)
		require.Zero(t, s.Refused)
	})

	t.Run("two runs at once", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		other := make(chan result)
		go func() { other <- p.onShared(t, dsn, schema, with(northwind, "-freeze=false")...) }()
		one := p.onShared(t, dsn, schema, with(northwind, "-freeze=false")...)
		holds(t, one.figures(t))
		holds(t, (<-other).figures(t))
	})

	t.Run("malformed rows are refused before anything is written", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		dir := t.TempDir()
		orders, lines := filepath.Join(dir, "o.csv"), filepath.Join(dir, "l.csv")
		require.NoError(t, os.WriteFile(orders, []byte(goodOrders), 0o600))
		require.NoError(t, os.WriteFile(lines, []byte(goodLines+"2,9,nine,1,0\n"), 0o600))
		r := p.onShared(t, dsn, schema, "-json", "-orders", orders, "-lines", lines)
		require.Equal(t, 1, r.code)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "l.csv:5: unitPrice \"nine\": want a plain decimal such as 14.00\n")
		var tables int
		err := pgtest.Pool(t, dsn).QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = $1`, schema).Scan(&tables)
		require.NoError(t, err)
		require.Zero(t, tables)
	})

	t.Run("wrong flags", func(t *testing.T) {
		t.Parallel()
		r := p.onShared(t, "postgres://nobody@127.0.0.1:1/none", "x", "-instances", "none")
		require.Equal(t, 2, r.code)
		require.Empty(t, r.stdout)
	})

	t.Run("instances killed from outside are started again", func(t *testing.T) {
		t.Parallel()
		dsn, schema := pgtest.Schema(t)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := p.command(ctx, []string{"DATABASE_URL=" + dsn, "LEASEHOLD_TEST_SOURCE="},
			with(northwind, "-schema", schema, "-ttl", "2s", "-freeze=false")...)
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		stderr := follow(t, cmd.StderrPipe)
		require.NoError(t, cmd.Start())
		text := stderr.until(t, "acquires the lease")
		for _, pid := range instances(t, cmd.Process.Pid) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		text += stderr.rest()
		require.NoError(t, cmd.Wait(), text)
		holds(t, result{stdout: stdout.String()}.figures(t))
		require.Contains(t, text, "has died: signal: killed")
	})

	t.Run("leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		pgtest.Private(t, nil) // Skips where no server can be started.
		for name, c := range map[string]struct {
			moment string
			args   []string
			signal syscall.Signal
		}{
			"at the end":                   {moment: ""},
			"interrupted at once":          {"The nightly invoice job", nil, syscall.SIGINT},
			"interrupted before a server":  {"looking for a server", nil, syscall.SIGINT},
			"interrupted before the job":   {"TTL 1.5s", nil, syscall.SIGINT},
			"interrupted in the job":       {"acquires the lease", nil, syscall.SIGINT},
			"terminated with one frozen":   {"is frozen", nil, syscall.SIGTERM},
			"terminated after a take-over": {"takes over", nil, syscall.SIGTERM},
			"hung up after a kill":         {"is killed", []string{"-kill", "-freeze=false"}, syscall.SIGHUP},
			"killed before a server":       {"looking for a server", nil, syscall.SIGKILL},
			"killed with one frozen":       {"is frozen", nil, syscall.SIGKILL},
			"nobody reads":                 {"acquires the lease", nil, syscall.SIGPIPE},
		} {
			t.Run(name, func(t *testing.T) { p.leavesNothing(t, c.moment, c.signal, append(c.args, "-ttl", "1500ms")...) })
		}
	})

	t.Run("go run leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		pgtest.Private(t, nil)
		program("go").leavesNothing(t, "acquires the lease", syscall.SIGTERM, "run", ".")
	})
}

// leavesNothing runs the program with a server of its own, sends it a signal at a moment of the story, and looks for processes
// and folders.
func (p program) leavesNothing(t *testing.T, moment string, signal syscall.Signal, args ...string) {
	t.Helper()
	temp := temporary(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := p.command(ctx, []string{"TMPDIR=" + temp}, args...)
	stdout := follow(t, cmd.StdoutPipe)
	require.NoError(t, cmd.Start())
	if moment != "" {
		stdout.until(t, moment)
	}
	switch signal {
	case 0:
	case syscall.SIGPIPE:
		require.NoError(t, stdout.pipe.Close())
	default:
		require.NoError(t, cmd.Process.Signal(signal))
	}
	stdout.rest()
	err := cmd.Wait()
	switch {
	case signal == 0:
		require.NoError(t, err)
	case signal == syscall.SIGKILL || p == "go":
		// The kernel and the server's janitor clean up after it; go run does not wait.
		require.Error(t, err)
	default:
		require.Equal(t, 128+int(signal), cmd.ProcessState.ExitCode(), "%v", err)
	}
	// Not at once: a child of initdb, which was ended with it, may be on its way out.
	require.Eventually(t, func() bool { return len(traces(t, temp)) == 0 }, 20*time.Second, 50*time.Millisecond, "something is left")
	require.Empty(t, traces(t, temp))
}

// temporary is a folder as /tmp is one: the account of a server can reach it and removes its own from it. t.TempDir is not.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "invoicejob-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

// traces are files of ours in the folder, and processes that have to do with it: by their arguments, environment or
// working folder.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	found = without(found, func(name string) bool {
		return strings.HasPrefix(filepath.Base(name), "go-build") // of a go run that was killed
	})
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, process := range processes {
		arguments, _ := os.ReadFile(process + "/cmdline")
		environment, _ := os.ReadFile(process + "/environ")
		folder, _ := os.Readlink(process + "/cwd")
		if strings.Contains(string(arguments)+string(environment)+folder, dir) {
			found = append(found, process+" "+strings.ReplaceAll(string(arguments), "\x00", " "))
		}
	}
	return found
}

func without(list []string, which func(string) bool) []string {
	var rest []string
	for _, s := range list {
		if !which(s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// instances are the process ids of the children.
func instances(t *testing.T, parent int) []int {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		pgtest.Skip(t, "no /proc to find processes in")
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var found []int
	for _, file := range all {
		text, _ := os.ReadFile(file)
		var state string
		var ppid int
		_, after, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(after, &state, &ppid); err == nil && ppid == parent {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			found = append(found, pid)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// newestInvoice is the time of the last write.
func newestInvoice(t *testing.T, dsn, schema string) (at time.Time) {
	t.Helper()
	db := &database{pgtest.Pool(t, dsn), schema}
	require.NoError(t, db.pool.QueryRow(t.Context(), db.sql(`SELECT max(written_at) FROM {schema}.invoices`)).Scan(&at))
	return at
}

// A reader follows the lines of a story while it is told.
type reader struct {
	pipe  io.ReadCloser
	lines *bufio.Reader
}

// follow wants the pipe of standard output or error, before the program starts.
func follow(t *testing.T, pipe func() (io.ReadCloser, error)) *reader {
	t.Helper()
	in, err := pipe()
	require.NoError(t, err)
	return &reader{in, bufio.NewReader(in)}
}

// until reads up to the line that contains part.
func (r *reader) until(t *testing.T, part string) string {
	t.Helper()
	var text strings.Builder
	for {
		line, err := r.lines.ReadString('\n')
		text.WriteString(line)
		if strings.Contains(line, part) {
			return text.String()
		}
		require.NoError(t, err, "%q must come:\n%s", part, &text)
	}
}

// rest reads to the end: until every process that could write has ended.
func (r *reader) rest() string {
	text, _ := io.ReadAll(r.lines)
	return string(text)
}
