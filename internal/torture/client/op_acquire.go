package main

import (
	"context"
	"time"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// try asks once.
var try = op{"try", 20, func(ctx context.Context, c *client, _ plan.Dice, name string) {
	c.keep(ctx, name, c.locks.TryAcquire)
}}

// wait waits for a lease, for a time that is sometimes longer than a TTL.
var wait = op{"wait", 12, func(ctx context.Context, c *client, d plan.Dice, name string) {
	ctx, cancel := context.WithTimeout(ctx, d.Between(20*time.Millisecond, 700*time.Millisecond))
	defer cancel()
	c.keep(ctx, name, c.locks.Acquire)
}}

// cancelled has the context end in the midst of asking: the grant may exist, and must not be in the way for longer than
// a TTL.
var cancelled = op{"cancelled", 8, func(ctx context.Context, c *client, d plan.Dice, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(d.Between(0, 4*time.Millisecond), cancel)
	defer timer.Stop()
	c.keep(ctx, name, c.locks.Acquire)
}}
