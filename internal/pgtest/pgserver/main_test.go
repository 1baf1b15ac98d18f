package pgserver

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// envChild makes the test binary a program that starts a server and comes to a bad end.
const envChild = "PGSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if end := os.Getenv(envChild); end != "" {
		child(end)
	}
	goleak.VerifyTestMain(m)
}

// local starts a cluster from binaries, whatever the environment offers.
func local(t *testing.T, options Options) (*Server, *cluster) {
	t.Helper()
	return localIn(t, t.Context(), options)
}

func localIn(t *testing.T, ctx context.Context, options Options) (*Server, *cluster) {
	t.Helper()
	server, err := startBinaries(ctx, options)
	if err != nil {
		skip(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server, server.engine.(*cluster)
}

// skip is pgtest.Skip, which cannot be imported here.
func skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_NO_SKIP") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func ask[T any](t *testing.T, conn *pgx.Conn, sql string) T {
	t.Helper()
	var answer T
	require.NoError(t, conn.QueryRow(context.Background(), sql).Scan(&answer), sql)
	return answer
}

// requireGone waits until a server's processes and its folder are no more.
func requireGone(t *testing.T, folder string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !running(pid) }, 15*time.Second, 10*time.Millisecond, "process %d", pid)
	}
	require.Eventually(t, func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err)
	}, 15*time.Second, 10*time.Millisecond, folder)
}

func family(t *testing.T, postmaster int) []int {
	t.Helper()
	pids, err := children(postmaster)
	require.NoError(t, err)
	require.NotEmpty(t, pids, "children of %d", postmaster)
	return append(pids, postmaster)
}

func (c *cluster) String() string { return fmt.Sprintf("port %d in %s", c.port, c.folder.path) }
