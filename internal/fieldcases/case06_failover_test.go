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

// A failover is a lossy one: the standby misses the last grants of "n" and never sees those of another name.
type failover struct {
	standby *pgserver.Server
	last    fencing.Token // of "n", with the lost grants
	unseen  string        // a name that only the old primary knows
	first   fencing.Token // the highest token of it
}

// fail loses the last grants of a primary, kills it and promotes its standby. What the standby is to miss happens
// after it was detached.
func (p place) fail(t *testing.T, primary, standby *pgserver.Server, before fencing.Token) failover {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := failover{standby: standby, unseen: fmt.Sprint("unseen after ", before)}
	require.NoError(t, standby.CatchUp(ctx, primary))
	require.NoError(t, standby.Detach(ctx))
	f.last = grants(t, p.client(t, steady), "n", 5)
	require.Greater(t, f.last, before)
	f.first = grants(t, p.client(t, steady), f.unseen, 5)
	require.NoError(t, primary.Kill())

	// A waiter is there before the promotion: its grant may be the very first of the new timeline.
	waiter, err := pglock.New(pgtest.Pool(t, standby.DSN()), pglock.Config{TTL: time.Minute, PollInterval: time.Millisecond})
	require.NoError(t, err)
	defer func() { _ = waiter.Close(context.Background()) }()
	granted := waitFor(t, waiter, f.unseen)
	require.NoError(t, standby.Promote(ctx))
	lease := <-granted
	require.Greater(t, lease.Token(), f.first)
	f.first = lease.Token()
	require.NoError(t, lease.Release(ctx))
	return f
}

func TestCase06_TokensRiseThroughLossyFailovers(t *testing.T) {
	t.Parallel()
	primary := pgtest.Private(t, nil)
	p := installOn(t, primary.DSN())
	last := p.hundred(t)
	for range 2 {
		f := p.fail(t, primary, pgtest.Standby(t, primary), last)
		primary, p = f.standby, at(t, f.standby.DSN(), "public")
		p.above(t, f.unseen, f.first)
		last = p.above(t, "n", f.last)
	}
}

// The tokens of a restored database are in the second thousand of epochs, but its timeline is 1 again.
func TestCase06_TokensRiseThroughARestoreAndThenALossyFailover(t *testing.T) {
	t.Parallel()
	from := installOn(t, pgtest.Private(t, nil).DSN())
	last := from.hundred(t)
	file := dump(t, from.dsn)
	last = max(last, grants(t, from.client(t, steady), "n", 3)) // They are not in the dump.
	for _, granted := range []bool{true, false} {
		t.Run(fmt.Sprintf("granted before the standby was cut off: %v", granted), func(t *testing.T) {
			t.Parallel()
			primary := pgtest.Private(t, nil)
			p := at(t, primary.DSN(), "public")
			restore(t, p.dsn, file)
			before := last
			if granted { // Else the standby misses the entry of the epoch too.
				before = p.above(t, "n", last)
			}
			f := p.fail(t, primary, pgtest.Standby(t, primary), before)
			p = at(t, f.standby.DSN(), "public")
			p.above(t, f.unseen, f.first)
			p.above(t, "n", f.last)
		})
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
	var last atomic.Int64
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 4 {
			c := p.client(t, pglock.Config{TTL: time.Second, PollInterval: 5 * time.Millisecond})
			group.Go(func() {
				for ctx.Err() == nil {
					lease, err := c.Acquire(ctx, "n")
					if errors.Is(err, context.Canceled) {
						return
					}
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					mu.Lock()
					if seen[lease.Token()] {
						t.Errorf("token %d twice", lease.Token())
					}
					seen[lease.Token()] = true
					mu.Unlock()
					if token := int64(lease.Token()); token < last.Swap(token) {
						t.Errorf("token %d came late", token)
					}
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
