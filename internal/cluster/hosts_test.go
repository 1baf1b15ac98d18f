//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

// TestHosts_AFrozenHostTakesTheWholeRequestWithoutAConnectTimeout: a frozen machine accepts connections and says nothing. pgx goes on to
// the next host when connect_timeout is over, and without one never within a request.
func TestHosts_AFrozenHostTakesTheWholeRequestWithoutAConnectTimeout(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	require.NoError(t, migrations.Up(t.Context(), migrations.URL(server.DSN()), migrations.Options{}))
	frozen, _ := faultnet.ListenDSN(t, server.DSN())
	frozen.Set(faultnet.BlackHole())
	config, err := pgx.ParseConfig(server.DSN())
	require.NoError(t, err)
	dsn := fmt.Sprintf("postgres://postgres:%s@%s,%s:%d/postgres?sslmode=disable&target_session_attrs=read-write",
		config.Password, frozen.Addr(), config.Host, config.Port)

	lease, err := client(t, dsn+"&connect_timeout=1", "public", 30*time.Second).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	_, err = client(t, dsn, "public", 3*time.Second).TryAcquire(t.Context(), "n")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, pglock.ErrNotAcquired)
	frozen.Reset() // What hangs would keep the pool from closing.
}
