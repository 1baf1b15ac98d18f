package faultnet

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// TestProxy_WireCutsBeforeAndAfterTheServerDidIt: as a Wire does in the client, for clients that are other processes.
func TestProxy_WireCutsBeforeAndAfterTheServerDidIt(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Schema(t)
	direct, table := pgtest.Pool(t, dsn), pgx.Identifier{schema, "writes"}.Sanitize()
	_, err := direct.Exec(t.Context(), "CREATE TABLE "+table+" (n int)")
	require.NoError(t, err)
	proxy, through := ListenDSN(t, dsn)
	config, err := pgxpool.ParseConfig(through)
	require.NoError(t, err)
	config.MaxConns = 1
	pool := pgtest.PoolWith(t, config)

	write := func() error {
		_, err := pool.Exec(t.Context(), "INSERT INTO "+table+" VALUES (1)")
		return err
	}
	require.NoError(t, write())
	require.Equal(t, 1, rows(t, direct, table))
	proxy.Wire().Fail(1, BeforeSend())
	require.Error(t, write())
	require.True(t, proxy.Wire().Fired())
	require.Equal(t, 1, rows(t, direct, table), "the server never heard of it")
	proxy.Wire().Fail(1, AfterSend())
	require.Error(t, write())
	require.True(t, proxy.Wire().Fired())
	require.Equal(t, 2, rows(t, direct, table), "the server has done it")
	require.NoError(t, write(), "on another connection")
	require.Equal(t, 3, rows(t, direct, table))
}
