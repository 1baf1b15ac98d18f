package pgserver

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func bouncer(t *testing.T, dsn string, options BouncerOptions) *Bouncer {
	t.Helper()
	if _, err := bouncerProgram(); err != nil {
		skip(t, err.Error())
	}
	b, err := StartBouncer(t.Context(), dsn, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// connectSimple does without prepared statements, which PgBouncer before 1.21 does not carry.
func connectSimple(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	return connect(t, dsn+"&default_query_exec_mode=exec")
}

func TestBouncer_PoolsByTransaction(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{})
	b := bouncer(t, server.DSN(), BouncerOptions{PoolSize: 1})
	first, second := connectSimple(t, b.DSN()), connectSimple(t, b.DSN())
	const pid = "SELECT pg_backend_pid()"
	require.Equal(t, ask[int](t, first, pid), ask[int](t, second, pid), "two clients share one session")

	// The one session is taken for as long as a transaction is open.
	tx, err := first.Begin(t.Context())
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := second.Exec(context.Background(), "SELECT 1")
		waited <- err
	}()
	select {
	case err := <-waited:
		require.Fail(t, "did not wait", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-waited)
}

func TestBouncer_LimitsClients(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{})
	b := bouncer(t, server.DSN(), BouncerOptions{MaxClientConn: 1, Settings: map[string]string{"query_wait_timeout": "7"}})
	connectSimple(t, b.DSN())
	_, err := pgx.Connect(t.Context(), b.DSN())
	require.ErrorContains(t, err, "no more connections allowed")
}

func TestBouncer_RestartBreaksConnectionsAndKeepsTheDSN(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{})
	b := bouncer(t, server.DSN(), BouncerOptions{})
	conn := connectSimple(t, b.DSN())
	dsn := b.DSN()
	require.NoError(t, b.Restart(t.Context()))
	require.Error(t, conn.Ping(t.Context()))
	require.Equal(t, dsn, b.DSN())
	require.NoError(t, connectSimple(t, b.DSN()).Ping(t.Context()))

	// With the server down, PgBouncer itself still starts.
	require.NoError(t, server.Stop(Fast))
	require.NoError(t, b.Restart(t.Context()))
	require.NoError(t, server.Start())
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(context.Background(), b.DSN())
		return err == nil && conn.Close(context.Background()) == nil
	}, 30*time.Second, 100*time.Millisecond, "server_login_retry is 15 s")
}

func TestBouncer_CloseLeavesNothing(t *testing.T) {
	t.Parallel()
	server, _ := local(t, Options{})
	b := bouncer(t, server.DSN(), BouncerOptions{})
	pid, janitor, folder := b.process.pid(), b.folder.janitor.process.pid(), b.folder.path
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "again")
	requireGone(t, folder, pid, janitor)
	require.ErrorIs(t, b.Restart(t.Context()), errClosed)
}

// TestBouncer_RevivesWhatEndedByItself, and leaves one that works alone.
func TestBouncer_RevivesWhatEndedByItself(t *testing.T) {
	t.Parallel()
	if !HasPgBouncer() {
		skip(t, "PgBouncer is not installed")
	}
	server, _ := local(t, Options{})
	b, err := StartBouncer(t.Context(), server.DSN(), BouncerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	said, err := b.Revive(t.Context())
	require.NoError(t, err)
	require.Empty(t, said)

	b.process.signal(syscall.SIGKILL)
	<-b.process.done
	said, err = b.Revive(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, said)
	require.Equal(t, 1, ask[int](t, connect(t, b.DSN()+"&default_query_exec_mode=exec"), "SELECT 1"))
}
