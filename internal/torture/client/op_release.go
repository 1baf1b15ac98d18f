package main

import (
	"context"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// release ends the term of a lease that the client holds.
var release = op{"release", 14, func(ctx context.Context, c *client, d plan.Dice, name string) {
	if l, found := c.held(d, name); found && c.drop(l) {
		c.giveBack(ctx, l)
		c.former(l)
	}
}}

// releaseLate releases what the client has lost, as a deferred Release does. It must not touch the row of the next holder.
var releaseLate = op{"release late", 8, func(ctx context.Context, c *client, d plan.Dice, name string) {
	if l, found := c.oneFormer(d, name); found && c.release(ctx, l) != nil {
		c.count("late releases refused")
	}
}}

// abandon forgets a lease. The client goes on renewing it until its life ends.
var abandon = op{"abandon", 1, func(_ context.Context, c *client, d plan.Dice, name string) {
	if l, found := c.held(d, name); found && c.drop(l) {
		c.count("abandoned")
		c.mu.Lock()
		defer c.mu.Unlock()
		c.loose = append(c.loose, l)
	}
}}
