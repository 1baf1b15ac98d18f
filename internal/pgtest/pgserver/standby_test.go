package pgserver

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func standby(t *testing.T, primary *Server) *Server {
	t.Helper()
	s, err := primary.Standby(t.Context())
	if errors.Is(err, errNoStandby) {
		skip(t, err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func write(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

func TestStandby_StreamsAndIsPromoted(t *testing.T) {
	t.Parallel()
	primary, _ := local(t, Options{})
	conn := connect(t, primary.DSN())
	write(t, conn, "CREATE TABLE copied (n int)")
	second := standby(t, primary)
	require.NotEqual(t, primary.DSN(), second.DSN())

	write(t, conn, "INSERT INTO copied VALUES (1)")
	require.NoError(t, second.CatchUp(t.Context(), primary))
	copied := connect(t, second.DSN())
	require.Equal(t, 1, ask[int](t, copied, "SELECT count(*) FROM copied"))
	_, err := copied.Exec(t.Context(), "INSERT INTO copied VALUES (2)")
	require.Error(t, err, "read only")

	require.NoError(t, primary.Kill())
	require.NoError(t, second.Promote(t.Context()))
	write(t, copied, "INSERT INTO copied VALUES (2)")
	require.Equal(t, "00000002", ask[string](t, copied, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"))
	require.NoError(t, second.Restart())
	require.Equal(t, 2, ask[int](t, connect(t, second.DSN()), "SELECT count(*) FROM copied"))
}

func TestStandby_DetachedLosesCommits(t *testing.T) {
	t.Parallel()
	primary, _ := local(t, Options{})
	conn := connect(t, primary.DSN())
	write(t, conn, "CREATE TABLE copied AS SELECT 1 AS n")
	second := standby(t, primary)
	require.NoError(t, second.CatchUp(t.Context(), primary))
	require.NoError(t, second.Detach(t.Context()))
	write(t, conn, "INSERT INTO copied VALUES (2)")
	require.NoError(t, primary.Kill())
	require.NoError(t, second.Promote(t.Context()))
	require.Equal(t, 1, ask[int](t, connect(t, second.DSN()), "SELECT count(*) FROM copied"))
}

func TestStandby_NeedsARunningPrimary(t *testing.T) {
	t.Parallel()
	primary, _ := local(t, Options{})
	require.NoError(t, primary.Stop(Fast))
	_, err := primary.Standby(t.Context())
	require.ErrorIs(t, err, errNoStandby)
	_, err = newServer(&given{}).Standby(t.Context())
	require.ErrorIs(t, err, errNoStandby)
}
