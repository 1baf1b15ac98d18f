package pgserver

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCluster_StartsWithKnownSettings(t *testing.T) {
	t.Parallel()
	server, c := local(t, Options{Settings: map[string]string{"application_name": `it's a \ test`, "max_connections": "17"}})
	require.Contains(t, server.Source(), "PostgreSQL ")

	conn := connect(t, server.DSN())
	for setting, want := range map[string]string{
		"server_encoding": "UTF8", "lc_messages": "C", "timezone": "UTC", "fsync": "off",
		"application_name": `it's a \ test`, "max_connections": "17", "listen_addresses": "127.0.0.1",
	} {
		require.Equal(t, want, ask[string](t, conn, "SELECT current_setting('"+setting+"')"), setting)
	}
	require.Equal(t, "C", ask[string](t, conn, "SELECT datcollate FROM pg_database WHERE datname = current_database()"))

	// A terminal's interrupt goes to a process group of the terminal's session.
	own, err := unix.Getsid(0)
	require.NoError(t, err)
	theirs, err := unix.Getsid(c.postmaster.pid())
	require.NoError(t, err)
	require.NotEqual(t, own, theirs)

	janitor, err := unix.Getsid(c.folder.janitor.process.pid())
	require.NoError(t, err)
	require.NotEqual(t, own, janitor)
}

func TestCluster_DurableLeavesFsyncOn(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{Durable: true})
	require.Equal(t, "on", ask[string](t, connect(t, server.DSN()), "SHOW fsync"))
}

func TestCluster_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	server, c := local(t, Options{})
	pids := append(family(t, c.postmaster.pid()), c.folder.janitor.process.pid())
	require.NoError(t, server.Close())
	requireGone(t, c.folder.path, pids...)
	require.NoError(t, server.Close(), "again")
	require.ErrorIs(t, server.Start(), errClosed)
}

func TestCluster_KeepsDataAndDSNThroughStops(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{})
	conn := connect(t, server.DSN())
	_, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)")
	require.NoError(t, err)

	for name, stop := range map[string]func() error{
		"fast":      func() error { return server.Stop(Fast) },
		"immediate": func() error { return server.Stop(Immediate) },
		"kill":      server.Kill,
	} {
		conn := connect(t, server.DSN())
		_, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES (1)")
		require.NoError(t, err, name)
		require.NoError(t, stop(), name)
		require.Error(t, conn.Ping(t.Context()), name)
		require.NoError(t, stop(), "%s again", name)
		require.NoError(t, server.Start(), name)
		require.NoError(t, server.Start(), "start again")
	}
	require.NoError(t, server.Restart())
	require.Equal(t, 3, ask[int](t, connect(t, server.DSN()), "SELECT count(*) FROM kept"))
}

func TestCluster_KillEndsAllProcesses(t *testing.T) {
	t.Parallel()
	server, c := local(t, Options{})
	pids := family(t, c.postmaster.pid())
	require.NoError(t, server.Kill())
	for _, pid := range pids {
		require.False(t, running(pid))
	}
	// Closed without another start: what the killed server left in shared memory goes, too.
	status, err := c.status()
	require.NoError(t, err)
	require.NoError(t, server.Close())
	requireGone(t, c.folder.path)
	if status.memory != 0 {
		_, err = unix.SysvShmCtl(status.memory, unix.IPC_STAT, &unix.SysvShmDesc{})
		require.Error(t, err, "segment %d", status.memory)
	}
}

func TestCluster_PauseKeepsConnectionsAndAnswersNothing(t *testing.T) {
	t.Parallel()
	server, c := local(t, Options{})
	conn := connect(t, server.DSN())
	require.NoError(t, server.Pause())
	for _, pid := range family(t, c.postmaster.pid()) {
		require.True(t, stopped(pid))
	}
	answered := make(chan error, 1)
	go func() {
		var one int
		answered <- conn.QueryRow(context.Background(), "SELECT 1").Scan(&one)
	}()
	select {
	case err := <-answered:
		require.Fail(t, "answered while paused", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, server.Resume())
	require.NoError(t, <-answered)
	require.NoError(t, server.Resume(), "again")

	// A frozen server can be stopped, killed and closed.
	require.NoError(t, server.Pause())
	require.NoError(t, server.Stop(Fast))
	require.ErrorIs(t, server.Pause(), errStopped)
	require.NoError(t, server.Start())
	require.NoError(t, server.Pause())
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start())
	require.NoError(t, server.Pause())
	pids := family(t, c.postmaster.pid())
	require.NoError(t, server.Close())
	requireGone(t, c.folder.path, pids...)
}

func TestCluster_BadSettingIsAnErrorWithTheLog(t *testing.T) {
	t.Parallel()
	local(t, Options{}) // skips where there are no binaries
	_, err := startBinaries(t.Context(), Options{Settings: map[string]string{"max_connections": "many"}})
	require.ErrorContains(t, err, `invalid value for parameter "max_connections": "many"`)
}

func TestCluster_TakenPortIsAnError(t *testing.T) {
	t.Parallel()
	_, first := local(t, Options{})
	_, second := local(t, Options{})
	require.NoError(t, second.stop(t.Context(), Fast))
	second.port = first.port
	require.ErrorContains(t, second.start(t.Context()), "start postgres on port")
	require.Nil(t, second.postmaster)
}

// TestStart_CancelledLeavesNothing cancels at moments spread over the whole start.
func TestStart_CancelledLeavesNothing(t *testing.T) {
	local(t, Options{})
	// Its own TMPDIR shows all that was left. Not t.TempDir: that is closed to the server's account.
	root, err := os.MkdirTemp("", "pgserver-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o777))
	t.Setenv("TMPDIR", root)

	complete := false
	for wait := time.Duration(0); !complete; wait += 150 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		server, err := Start(ctx, Options{Private: true})
		if err == nil {
			complete = true
			require.NoError(t, server.Close())
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
		left, err := os.ReadDir(root)
		require.NoError(t, err)
		require.Empty(t, left, "after %s", wait)
		require.Less(t, wait, time.Minute, "never complete")
	}
}
