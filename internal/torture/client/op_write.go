package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/pglock"
)

// advance writes under the exclusive form.
var advance = op{"advance", 20, func(ctx context.Context, c *client, d plan.Dice, name string) {
	think := thinking(d)
	if l, found := c.held(d, name); found {
		c.write(ctx, l, advances, think)
	}
}}

// share writes under the shared form, in several transactions side by side.
var share = op{"share", 12, func(ctx context.Context, c *client, d plan.Dice, name string) {
	pauses := []time.Duration{thinking(d), thinking(d), thinking(d)}[:1+d.IntN(3)]
	l, found := c.held(d, name)
	if !found {
		return
	}
	var group sync.WaitGroup
	for _, think := range pauses {
		group.Go(func() { c.write(ctx, l, shares, think) })
	}
	group.Wait()
}}

// stale writes under a term that is over for the client. If somebody else was granted the name since, it must be refused;
// if nobody was, the fence has no reason to.
var stale = op{"stale", 14, func(ctx context.Context, c *client, d plan.Dice, name string) {
	form := plan.One(d, []check{advances, shares})
	think := thinking(d)
	if l, found := c.oneFormer(d, name); found {
		c.write(ctx, l, form, think)
	}
}}

// A check passes a lease's fence in a transaction. Nothing else is in front, as for a holder that is paused after it has
// looked whether it still is one.
type check func(context.Context, pgx.Tx, *pglock.Lease) error

func advances(ctx context.Context, tx pgx.Tx, l *pglock.Lease) error {
	return l.Fence().AdvanceTx(ctx, tx, l.Token())
}

func shares(ctx context.Context, tx pgx.Tx, l *pglock.Lease) error {
	return l.Fence().ShareTx(ctx, tx, l.Token())
}

// thinking is what a transaction does between its check and its commit: mostly nothing, at times long.
func thinking(d plan.Dice) time.Duration {
	if d.IntN(3) > 0 {
		d.Int64()
		return 0
	}
	return d.Between(time.Millisecond, 150*time.Millisecond)
}
