package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

func TestEpoch_RaiseRevokesEveryLease(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	env := databaseEnv(dsn)
	client, err := pglock.New(pgtest.Pool(t, dsn), pglock.Config{Schema: schema, TTL: 5 * time.Second, RenewInterval: 100 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	lease, err := client.TryAcquire(t.Context(), "n")
	require.NoError(t, err)

	code, _, stderr := pglockRun(t, env, "epoch", "raise", "-schema", schema)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-yes")
	require.NoError(t, lease.Err())

	require.Equal(t, "leases revoked: 1, fences raised: 1; tokens are now above 4398046511104\n", mustRun(t, env, "epoch", "raise", "-schema", schema, "-yes"))
	<-lease.Context().Done()
	require.ErrorIs(t, lease.Err(), pglock.ErrLost)
	next, err := client.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, 1024<<32+1, next.Token())

	code, _, stderr = pglockRun(t, env, "epoch", "raise", "-schema", "no_such_schema", "-yes")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "pglock migrate up -schema no_such_schema")
}
