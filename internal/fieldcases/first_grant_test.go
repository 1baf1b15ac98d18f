package fieldcases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/pglock"
)

// The first grant of a schema enters its epoch first. On a slow network that is no contention: nobody else is there.
func TestFirstGrant_OverASlowNetworkIsNotBusy(t *testing.T) {
	t.Parallel()
	p := install(t)
	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	proxy.Set(faultnet.Delay(40 * time.Millisecond))
	lease, err := p.through(dsn).client(t, pglock.Config{RequestTimeout: 5 * time.Second}).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.Token())
}
