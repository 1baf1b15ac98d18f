//go:build linux

package cluster_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
)

// TestFormerLeader_WithTheNextOnesFenceTakesItselfForARestore is a gap, as the rounds found it: a former leader that is alive and takes a
// fenced write of the next leader's holder has a row of a higher epoch than its own, and cannot tell that from a restore. It enters
// anew, and grants above the next leader.
func TestFormerLeader_WithTheNextOnesFenceTakesItselfForARestore(t *testing.T) {
	t.Parallel()
	former := pgtest.Private(t, nil)
	require.NoError(t, migrations.Up(t.Context(), migrations.URL(former.DSN()), migrations.Options{}))
	lease, err := client(t, former.DSN(), "public", requestTimeout).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	next := pgtest.Standby(t, former)
	require.NoError(t, next.CatchUp(t.Context(), former))
	require.NoError(t, next.Detach(t.Context()))
	require.NoError(t, next.Promote(t.Context()))

	holder, err := client(t, next.DSN(), "public", requestTimeout).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, second+1, holder.Token())
	advance := func(dsn string, token fencing.Token) error {
		return pgx.BeginFunc(t.Context(), pgtest.Pool(t, dsn), func(tx pgx.Tx) error {
			return fencing.Fence{Name: "n"}.AdvanceTx(t.Context(), tx, token)
		})
	}
	require.NoError(t, advance(former.DSN(), holder.Token())) // A pool that opens one more session has found the former leader.
	late, err := client(t, former.DSN(), "public", requestTimeout).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, 1024<<32+1, late.Token())

	require.NoError(t, advance(next.DSN(), late.Token()))
	require.ErrorIs(t, advance(next.DSN(), holder.Token()), fencing.ErrStale)
	require.NoError(t, holder.Release(t.Context()))
	again, err := client(t, next.DSN(), "public", requestTimeout).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, again.Token(), late.Token()) // From here on all is in order again.
}
