package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// TestProgram_PasswordIsNeverShown: not in what it prints when a connection fails, and not in the arguments of its processes.
func TestProgram_PasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	p := build(t)
	for name, dsn := range map[string]string{
		"nobody listens":         "postgres://app:Zq7xK9@127.0.0.1:1/x",
		"keywords":               "host=127.0.0.1 port=1 user=app password='Zq7 xK9'",
		"keywords, not closed":   "host=127.0.0.1 port=1 user=app password='Zq7xK9",
		"keywords, with a blank": "host=127.0.0.1 port=1 user=app password=Zq7 xK9",
		"a raw percent":          "postgres://app:Zq7%zzxK9@127.0.0.1:1/x",
		"a raw slash":            "postgres://app:55/Zq7xK9@127.0.0.1:1/x?connect_timeout=1",
		"a raw at":               "postgres://app:Zq7@xK9@127.0.0.1:1/x?connect_timeout=1",
	} {
		r := p.onShared(t, dsn, "x")
		require.Equal(t, 1, r.code, name)
		require.Contains(t, r.stderr, "invoicejob: ", name)
		require.NotContains(t, r.stdout+r.stderr, "Zq7", name)
		require.NotContains(t, r.stdout+r.stderr, "xK9", name)
	}

	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		pgtest.Skip(t, "no /proc to read arguments in")
	}
	dsn, schema := pgtest.Schema(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	// A server that asks for none takes any password.
	dsn = strings.Replace(dsn, "postgres@", "postgres:Zq7xK9@", 1)
	require.Contains(t, dsn, "Zq7xK9")
	cmd := p.command(ctx, []string{"DATABASE_URL=" + dsn, "LEASEHOLD_TEST_SOURCE="}, "-schema", schema, "-ttl", "5s")
	stdout := follow(t, cmd.StdoutPipe)
	require.NoError(t, cmd.Start())
	text := stdout.until(t, "acquires the lease")
	for _, pid := range append(instances(t, cmd.Process.Pid), cmd.Process.Pid) {
		arguments, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		require.NoError(t, err)
		require.Contains(t, string(arguments), "invoicejob")
		require.NotContains(t, string(arguments), "Zq7")
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	text += stdout.rest()
	require.Error(t, cmd.Wait())
	require.NotContains(t, text, "Zq7")
}
