package control

import (
	"context"
	"time"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// restart takes the description of Redlock at its word: a is granted by two nodes of three, one of which then crashes and
// comes back. a is never frozen, and ends its turn long before its lock runs out.
//
// A node that comes back late is unavailable for a bit more than the longest expiry, as the description asks for.
func (c *cell) restart(ctx context.Context, number int, fault Fault, nodes []*stage.Node, ttl time.Duration) (Round, error) {
	t, err := c.open(ctx, fault, number)
	if err != nil {
		return t.round, err
	}
	away := newAbsence(fault, ttl)

	away.begin(nodes[2])
	if err := c.aReads(ctx, t); err != nil {
		return t.round, err
	}
	if err := away.end(ctx, nodes[2]); err != nil {
		return t.round, err
	}
	if err := c.a.awaitRenewed(ctx); err != nil {
		return t.round, err
	}
	away.begin(nodes[1])
	if fault != RestartLater {
		if err := away.end(ctx, nodes[1]); err != nil {
			return t.round, err
		}
	}

	if err := t.meet(ctx, ttl); err != nil {
		return t.round, err
	}
	if fault == RestartLater {
		if err := away.end(ctx, nodes[1]); err != nil {
			return t.round, err
		}
	}
	return t.close(ctx)
}

// restartDatabase is the same misfortune for a lease: the server of lock and ledger is killed and comes back at once.
func (c *cell) restartDatabase(ctx context.Context, number int, server *pgserver.Server, ttl time.Duration) (Round, error) {
	t, err := c.open(ctx, RestartDatabase, number)
	if err != nil {
		return t.round, err
	}
	if err := c.aReads(ctx, t); err != nil {
		return t.round, err
	}
	if err := server.Kill(); err != nil {
		return t.round, err
	}
	if err := server.Start(); err != nil {
		return t.round, err
	}
	c.pool.Reset()
	if err := t.meet(ctx, ttl); err != nil {
		return t.round, err
	}
	return t.close(ctx)
}

// aReads lets a take the lock and read; it waits there.
func (c *cell) aReads(ctx context.Context, t *tally) error {
	if err := c.a.begin(turn{t.round.Number, Read}); err != nil {
		return err
	}
	if _, err := c.a.await(ctx, isGranted); err != nil {
		return err
	}
	t.round.Grants++
	_, err := c.a.await(ctx, isStopping)
	return err
}

// meet has b take its turn while a works, which it does for at most half of what its lock has left.
func (t *tally) meet(ctx context.Context, ttl time.Duration) error {
	a, b := t.cell.a, t.cell.b
	if err := b.begin(turn{t.round.Number, Asked}); err != nil {
		return err
	}
	granted, err := t.bReads(ctx, ttl/2, false)
	if err != nil {
		return err
	}
	if granted {
		if err := b.goOn(); err != nil {
			return err
		}
		if err := t.finish(ctx, b); err != nil {
			return err
		}
	}
	if err := a.goOn(); err != nil {
		return err
	}
	if err := t.finish(ctx, a); err != nil || granted {
		return err
	}
	return t.cell.bAfterwards(ctx, t)
}

// bAfterwards is b's turn when a's is over.
func (c *cell) bAfterwards(ctx context.Context, t *tally) error {
	if _, err := t.bReads(ctx, patience, true); err != nil {
		return err
	}
	if err := c.b.goOn(); err != nil {
		return err
	}
	return t.finish(ctx, c.b)
}

// An absence is how long a node that has crashed stays away.
type absence struct {
	least time.Duration
	since time.Time
}

func newAbsence(fault Fault, ttl time.Duration) *absence {
	a := &absence{}
	if fault == RestartLater {
		a.least = ttl + ttl/5
	}
	return a
}

func (a *absence) begin(n *stage.Node) {
	n.Kill()
	a.since = time.Now()
}

func (a *absence) end(ctx context.Context, n *stage.Node) error {
	select {
	case <-time.After(a.least - time.Since(a.since)):
		return n.Start(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
