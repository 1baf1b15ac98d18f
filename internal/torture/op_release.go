package torture

import (
	"context"

	"github.com/leasehold-go/leasehold/internal/history"
)

// release ends the term of a lease that the client holds.
var release = op{"release", 14, func(ctx context.Context, c *client, d dice, name string) {
	l, found := c.held(d, name)
	if !found || !c.drop(l) {
		return
	}
	from := c.log.now()
	err := l.Release(ctx)
	c.log.note(from, l.event(history.KindEnded, "released: "+said(err)))
	c.log.strange("release", err)
	c.former(l)
}}

// releaseLate releases what the client has lost, as a deferred Release does. It must not touch the row of the next holder.
var releaseLate = op{"release late", 8, func(ctx context.Context, c *client, d dice, name string) {
	l, found := c.oneFormer(d, name)
	if found && l.Release(ctx) != nil {
		c.log.count("late releases refused")
	}
}}

// abandon forgets a lease. The client goes on renewing it until it closes or crashes.
var abandon = op{"abandon", 1, func(_ context.Context, c *client, d dice, name string) {
	if l, found := c.held(d, name); found && c.drop(l) {
		c.log.count("abandoned")
		c.forget(l)
	}
}}
