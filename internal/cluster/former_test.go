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

// TestFormerLeader_WithTheNextOnesFenceGrantsNothing: a former leader that is alive and takes a fenced write of the next leader's
// holder has a row of a later timeline than its own. Taken for a restore from another cluster it would enter anew and grant
// above the next leader, as the rounds once found it to do.
func TestFormerLeader_WithTheNextOnesFenceGrantsNothing(t *testing.T) {
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
	require.Nil(t, late)
	require.ErrorContains(t, err, "former primary")

	require.NoError(t, advance(next.DSN(), holder.Token()))
	require.NoError(t, holder.Release(t.Context()))
	again, err := client(t, next.DSN(), "public", requestTimeout).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, holder.Token()+1, again.Token())
}
