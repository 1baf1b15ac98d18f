package pgserver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContainer_DoesWhatAClusterDoes starts one container for all: they are slow.
func TestContainer_DoesWhatAClusterDoes(t *testing.T) {
	t.Parallel()
	server, err := startDocker(t.Context(), Options{Settings: map[string]string{"max_connections": "33"}})
	if err != nil {
		skip(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.Equal(t, "Docker postgres:17-alpine", server.Source())
	dsn := server.DSN()

	conn := connect(t, dsn)
	for setting, want := range map[string]string{
		"server_encoding": "UTF8", "timezone": "UTC", "fsync": "off", "max_connections": "33",
	} {
		require.Equal(t, want, ask[string](t, conn, "SELECT current_setting('"+setting+"')"), setting)
	}
	require.Equal(t, "C", ask[string](t, conn, "SELECT datcollate FROM pg_database WHERE datname = current_database()"))
	write(t, conn, "CREATE TABLE kept (n int)")

	for name, stop := range map[string]func() error{
		"fast":      func() error { return server.Stop(Fast) },
		"immediate": func() error { return server.Stop(Immediate) },
		"kill":      server.Kill,
	} {
		write(t, connect(t, dsn), "INSERT INTO kept VALUES (1)")
		require.NoError(t, stop(), name)
		require.NoError(t, stop(), "%s again", name)
		require.ErrorIs(t, server.Pause(), errStopped)
		require.NoError(t, server.Start(), name)
	}
	require.NoError(t, server.Restart())
	require.Equal(t, dsn, server.DSN())
	conn = connect(t, dsn)
	require.Equal(t, 3, ask[int](t, conn, "SELECT count(*) FROM kept"))

	require.NoError(t, server.Pause())
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(context.Background()) }()
	select {
	case err := <-answered:
		require.Fail(t, "answered while paused", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, server.Resume())
	require.NoError(t, <-answered)
	require.NoError(t, server.Pause())
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start())
	_, err = server.Standby(t.Context())
	require.ErrorIs(t, err, errNoStandby)

	require.NoError(t, server.Pause())
	require.NoError(t, server.Close(), "a paused one, too")
}
