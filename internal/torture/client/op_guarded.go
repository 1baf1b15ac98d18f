package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/pglock"
)

// guarded has the library run the transaction, under either form, now and then under a term that is over.
var guarded = op{"run", 8, func(ctx context.Context, c *client, d plan.Dice, name string) {
	options := fencing.RunOptions{Timeout: d.Between(50*time.Millisecond, time.Second), Shared: d.IntN(2) == 0}
	think := thinking(d)
	former := d.IntN(4) == 0
	l, found := c.held(d, name)
	if old, has := c.oneFormer(d, name); former && has {
		l, found = old, true
	}
	if found {
		c.runWrite(ctx, l, options, think)
	}
}}

// runWrite is one fenced transaction of Run. What Run says is certain is noted as that: after an error other than an UnknownError
// nothing of it is in the database.
func (c *client) runWrite(ctx context.Context, l *pglock.Lease, options fencing.RunOptions, think time.Duration) {
	w := c.newWrite(l)
	worked := false
	err := l.Fence().Run(ctx, c.pool, l.Token(), options, func(ctx context.Context, tx pgx.Tx) error {
		worked = true
		if think > 0 && !sleep(ctx, think) {
			return ctx.Err()
		}
		return w.insert(ctx, tx)
	})
	w.told(err, worked)
}
