package failover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// The standby is away and the commit of a grant waits for it. A caller that gives up knows nothing: not that somebody else has
// the name, and not that it has it itself.
func TestSynchronous_AWaitThatEndsIsUnknown(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"a new name": 0, "a free name": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSynchronousPair(t)
			grants(t, p.primary.DSN(), "first", 1) // The first grant of a cluster enters it, in a statement of its own.
			if before > 0 {
				grants(t, p.primary.DSN(), "n", before)
			}
			config, seen := told(lasting)
			config.TTL = 20 * time.Second // A grant that nobody gives back is gone by then.
			dsn := p.dsn(t, readWrite+"&application_name=asks")
			c := client(t, dsn, config)
			require.NoError(t, c.Check(t.Context()))
			p.standbyDown(t)

			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				lease, err := c.TryAcquire(ctx, "n")
				if lease != nil {
					err = errors.New("a lease")
				}
				failed <- err
			}()
			yes(t, p.primary.DSN(), waits, "asks")
			cancel()
			err := receive(t, failed)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, pglock.ErrNotAcquired)
			require.Zero(t, seen.count(pglock.EventAcquired))

			// It was committed here, or will be, and is freed without the standby.
			yes(t, p.primary.DSN(), "SELECT count(*) = 1 FROM pglock_leases WHERE name = 'n' AND token > $1 AND expires_at IS NULL", before)
			unknown := fencing.Token(ask[int64](t, p.primary.DSN(), "SELECT token FROM pglock_leases WHERE name = 'n'"))
			require.EqualValues(t, before+1, unknown)
			require.NoError(t, p.standby.Start())
			next := takeSoon(t, client(t, dsn, lasting), "n")
			require.Greater(t, next.Token(), unknown)
			require.Zero(t, seen.count(pglock.EventAcquired))

			// That one was acknowledged: it outlives the primary.
			p.killAndPromote(t)
			held(t, client(t, p.standby.DSN(), lasting), "n")
			require.NoError(t, next.Err())
			require.NoError(t, next.Release(t.Context()))
			above(t, p.standby.DSN(), "n", next.Token())
		})
	}
}

// A caller that goes on waiting gets the name when the standby is back, and not before: that a row says so is no
// acknowledgement.
func TestSynchronous_AWaitGoesOnUntilTheStandbyIsBack(t *testing.T) {
	t.Parallel()
	p := newSynchronousPair(t)
	config := lasting
	config.RequestTimeout = time.Second
	c := client(t, p.dsn(t, readWrite+"&application_name=asks"), config)
	require.NoError(t, take(t, c, "first").Release(t.Context()))
	p.standbyDown(t)
	granted := waitFor(t, c, "n")
	yes(t, p.primary.DSN(), "SELECT count(*) = 1 FROM pglock_leases WHERE name = 'n'") // The first question has given up.
	yes(t, p.primary.DSN(), waits, "asks")
	require.Empty(t, granted)
	require.NoError(t, p.standby.Start())
	lease := receive(t, granted)
	p.killAndPromote(t)
	require.Equal(t, lease.Token(), held(t, client(t, p.standby.DSN(), lasting), "n").Token)
	require.NoError(t, lease.Err())
}
