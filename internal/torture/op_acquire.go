package torture

import (
	"context"
	"time"
)

// try asks once.
var try = op{"try", 20, func(ctx context.Context, c *client, _ dice, name string) {
	lease, err := c.locks.TryAcquire(ctx, name)
	c.answered(lease, err)
}}

// wait waits for a lease, for a time that is sometimes longer than a TTL.
var wait = op{"wait", 12, func(ctx context.Context, c *client, d dice, name string) {
	ctx, cancel := context.WithTimeout(ctx, d.between(20*time.Millisecond, 700*time.Millisecond))
	defer cancel()
	lease, err := c.locks.Acquire(ctx, name)
	c.answered(lease, err)
}}

// cancelled has the context end in the midst of asking: the grant may exist, and must not be in the way for longer than
// a TTL.
var cancelled = op{"cancelled", 8, func(ctx context.Context, c *client, d dice, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(d.between(0, 4*time.Millisecond), cancel)
	defer timer.Stop()
	lease, err := c.locks.Acquire(ctx, name)
	c.answered(lease, err)
}}
