package torture

import (
	"context"
	"time"
)

// hold lets time pass: the renewer is at work, or a fault keeps it from it.
var hold = op{"hold", 8, func(ctx context.Context, c *client, d dice, _ string) {
	sleep(ctx, d.between(5*time.Millisecond, c.ttl*3/4))
}}
