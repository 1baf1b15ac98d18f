package faultnet

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

func TestDSN_LeadsThroughTheProxy(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:p%40@db:5433/shop?sslmode=disable":    "postgres://u:p%40@127.0.0.1:1234/shop?sslmode=disable",
		"postgresql:///shop?host=/run/postgresql&port=5433": "postgresql://127.0.0.1:1234/shop",
		"host=db port=5433 user=u":                          "host=db port=5433 user=u host=127.0.0.1 port=1234",
	} {
		got, err := through(dsn, "127.0.0.1:1234")
		require.NoError(t, err)
		require.Equal(t, want, got)
		config, err := pgx.ParseConfig(got)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", config.Host)
		require.EqualValues(t, 1234, config.Port)
	}
	for dsn, want := range map[string]string{
		"postgres://u@db:5433/shop":             "db:5433",
		"host=/run/postgresql port=5433 user=u": "/run/postgresql/.s.PGSQL.5433",
		"postgres://u@first:5433,second:5434/x": "first:5433",
	} {
		got, err := targetOf(dsn)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := through("postgres://u:secret@db:54 33/shop", "127.0.0.1:1234")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestListenDSN_CarriesPostgres(t *testing.T) {
	t.Parallel()
	proxy, dsn := ListenDSN(t, pgtest.Server(t).DSN())
	pool := pgtest.Pool(t, dsn)
	require.NoError(t, pool.Ping(t.Context()))
	require.Equal(t, 1, proxy.Accepted())
	proxy.Reset()
	require.Error(t, pool.QueryRow(t.Context(), "SELECT 1").Scan(new(int)))
	require.NoError(t, pool.Ping(t.Context()))
	require.Greater(t, proxy.Accepted(), 1) // pgx may also have sent a cancel request on a connection of its own
}
