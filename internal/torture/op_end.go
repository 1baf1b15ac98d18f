package torture

import "context"

// crash cuts the client's connections for good and drops it with all that it held, without release. Another takes its
// place.
var crash = op{"crash", 2, func(ctx context.Context, c *client, d dice, _ string) {
	c.die(ctx, d, "crashed")
}}

// closing closes the client as a program that ends does, and starts another.
var closing = op{"close", 2, func(ctx context.Context, c *client, d dice, _ string) {
	c.die(ctx, d, "closed")
}}
