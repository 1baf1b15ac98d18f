package fencedstores_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/examples/fencedstores"
	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// A redis is a server of the test's own, on a socket in a folder of its own.
type redis struct {
	program, folder string
	settings        []string
	cmd             *exec.Cmd
}

func newRedis(t *testing.T, settings ...string) *redis {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		pgtest.Skip(t, "redis-server is not installed")
	}
	folder, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	r := &redis{program: program, folder: folder, settings: settings}
	r.start(t)
	t.Cleanup(r.kill)
	return r
}

func (r *redis) socket() string { return filepath.Join(r.folder, "s") }

func (r *redis) start(t *testing.T) {
	t.Helper()
	_ = os.Remove(r.socket()) // a killed server leaves it
	r.cmd = exec.Command(r.program, append([]string{"--port", "0", "--unixsocket", r.socket(), "--dir", r.folder, "--save", ""}, r.settings...)...)
	require.NoError(t, r.cmd.Start())
	require.Eventually(t, func() bool {
		answer, err := r.do("PING")
		return err == nil && answer == "PONG"
	}, 20*time.Second, 20*time.Millisecond)
}

// kill is kill -9.
func (r *redis) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()
}

// do sends one command, in the protocol of Redis. Any client does as well; this one spares the module a dependency.
func (r *redis) do(words ...string) (string, error) {
	conn, err := net.Dial("unix", r.socket())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '-':
		return "", errors.New(line[1:])
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size)
		_, err = io.ReadFull(reader, text)
		return string(text), err
	}
	return line[1:], nil
}

func (r *redis) eval(_ context.Context, script string, keys []string, args ...any) (string, error) {
	words := append([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys...)
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	return r.do(words...)
}

func (r *redis) must(t *testing.T, words ...string) string {
	t.Helper()
	answer, err := r.do(words...)
	require.NoError(t, err)
	return answer
}

func TestRedis_StaleIsRefused(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), t.Context()
	require.ErrorContains(t, fencedstores.SetValue(ctx, r.eval, "price", 7, "a"), "NOFENCE")
	r.must(t, "HSETNX", "price", "token", "0")

	// The highest token so far is refused to none, and each one below it; the last four are pairs that a double confuses.
	for _, c := range []struct {
		token  fencing.Token
		passes bool
	}{
		{7, true}, {7, true}, {10, true}, {9, false}, {100, true}, {99, false},
		{1<<53 + 1, true}, {1 << 53, false}, {1<<63 - 1, true}, {1<<63 - 2, false},
	} {
		err := fencedstores.SetValue(ctx, r.eval, "price", c.token, fmt.Sprint("by ", c.token))
		if c.passes {
			require.NoError(t, err, c.token)
			require.Equal(t, fmt.Sprint("by ", c.token), r.must(t, "HGET", "price", "value"))
			continue
		}
		require.ErrorIs(t, err, fencing.ErrStale, c.token)
		require.NotEqual(t, fmt.Sprint("by ", c.token), r.must(t, "HGET", "price", "value"))
	}
	for _, garbled := range []string{"", "x", "007", "-1", "1.5", "0"} {
		_, err := r.eval(ctx, fencedstores.SetScript, []string{"price"}, garbled, "x")
		require.ErrorContains(t, err, "BADTOKEN", garbled)
	}
}

func TestRedis_AtOnceTheHighestStays(t *testing.T) {
	t.Parallel()
	r, ctx := newRedis(t), t.Context()
	r.must(t, "HSETNX", "price", "token", "0")
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			if err := fencedstores.SetValue(ctx, r.eval, "price", fencing.Token(1+i), strconv.Itoa(1+i)); err != nil && !errors.Is(err, fencing.ErrStale) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, "100", r.must(t, "HGET", "price", "value"))
}

// What Redis forgets, the fence forgets. With appendfsync always it forgets nothing by a crash; without a file it forgets all,
// and then nobody passes.
func TestRedis_AfterACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	durable := newRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	volatile := newRedis(t)
	for _, r := range []*redis{durable, volatile} {
		r.must(t, "HSETNX", "price", "token", "0")
		require.NoError(t, fencedstores.SetValue(ctx, r.eval, "price", 8, "new"))
		r.kill()
		r.start(t)
	}
	require.ErrorIs(t, fencedstores.SetValue(ctx, durable.eval, "price", 7, "late"), fencing.ErrStale)
	require.Equal(t, "new", durable.must(t, "HGET", "price", "value"))
	require.ErrorContains(t, fencedstores.SetValue(ctx, volatile.eval, "price", 7, "late"), "NOFENCE")
}
