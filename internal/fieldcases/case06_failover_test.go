package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// survive has a lossy failover: a standby that misses the last grants of "n", and all of another name, takes over. It
// returns the new primary and the highest token of "n".
func (p place) survive(t *testing.T, primary *pgserver.Server, before fencing.Token) (place, *pgserver.Server, fencing.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	standby := pgtest.Standby(t, primary)
	require.NoError(t, standby.CatchUp(ctx, primary))
	require.NoError(t, standby.Detach(ctx))
	const unseen = "not on the standby"
	last := grants(t, p.client(t, steady), "n", 5)
	require.Greater(t, last, before)
	first := grants(t, p.client(t, steady), unseen, 5)
	require.NoError(t, primary.Kill())

	// A waiter is there before the promotion: its grant may be the very first of the new timeline.
	p = at(t, standby.DSN(), p.schema)
	granted := waitFor(t, p.client(t, pglock.Config{TTL: time.Minute, PollInterval: time.Millisecond}), unseen)
	require.NoError(t, standby.Promote(ctx))
	lease := receive(t, granted)
	require.Greater(t, lease.Token(), first)
	require.NoError(t, lease.Release(ctx))
	p.above(t, unseen, lease.Token())
	return p, standby, p.above(t, "n", last)
}

func TestCase06_TokensRiseThroughLossyFailovers(t *testing.T) {
	t.Parallel()
	primary := pgtest.Private(t, nil)
	p := installOn(t, primary.DSN())
	last := p.hundred(t)
	for range 2 {
		p, primary, last = p.survive(t, primary, last)
	}
}

// A holder whose grant was lost by the failover learns it, and cannot write beside the next one.
func TestCase06_HolderOfALostGrantLearnsIt(t *testing.T) {
	t.Parallel()
	primary := pgtest.Private(t, nil)
	p := installOn(t, primary.DSN())
	grants(t, p.client(t, steady), "n", 3)
	kept := take(t, p.client(t, pglock.Config{TTL: 30 * time.Second}), "other") // It reaches the standby.
	standby := pgtest.Standby(t, primary)
	require.NoError(t, standby.CatchUp(t.Context(), primary))
	require.NoError(t, standby.Detach(t.Context()))

	proxy, dsn := faultnet.ListenDSN(t, p.dsn)
	a := p.through(dsn).client(t, pglock.Config{TTL: 20 * time.Second, RenewInterval: 200 * time.Millisecond})
	older, newer := take(t, a, "n"), take(t, a, "new")
	require.NoError(t, primary.Kill())
	require.NoError(t, standby.Promote(t.Context()))
	config, err := pgx.ParseConfig(standby.DSN())
	require.NoError(t, err)
	proxy.Retarget(fmt.Sprintf("%s:%d", config.Host, config.Port))
	proxy.Reset()

	require.Equal(t, pglock.LostRolledBack, lost(t, older).Reason)
	require.Equal(t, pglock.LostDeleted, lost(t, newer).Reason)
	p = at(t, standby.DSN(), "public")
	p.above(t, "n", older.Token())
	p.above(t, "new", newer.Token())
	held(t, p.client(t, steady), "other")
	require.NoError(t, kept.Err(), "what was not lost is still held")
}

// A crash loses no grant that was handed out, and none of its tokens comes again.
func TestCase06_TokensRiseThroughCrashes(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	p := installOn(t, server.DSN())
	seen := map[fencing.Token]bool{}
	var mu sync.Mutex
	var last atomic.Int64 // the highest token handed out
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 4 {
			c := p.client(t, pglock.Config{TTL: time.Second, PollInterval: 5 * time.Millisecond})
			group.Go(func() {
				for ctx.Err() == nil {
					floor := last.Load()
					lease, err := c.Acquire(ctx, "n")
					if errors.Is(err, context.Canceled) {
						return
					}
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					token := int64(lease.Token())
					mu.Lock()
					if seen[lease.Token()] || token <= floor {
						t.Errorf("token %d after %d, which was handed out before it was asked for", token, floor)
					}
					seen[lease.Token()] = true
					last.Store(max(last.Load(), token))
					mu.Unlock()
					_ = lease.Release(ctx) // The server may be down.
				}
			})
		}
		more := last.Load() + 20
		soon(t, func() bool { return last.Load() > more }, "grants go on")
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start())
		more = last.Load()
		soon(t, func() bool { return last.Load() > more }, "grants go on after the crash")
		cancel()
		group.Wait()
	}
}
