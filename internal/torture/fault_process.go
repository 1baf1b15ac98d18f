package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// stopShort stops a client's process (SIGSTOP) for less than a TTL.
var stopShort = fault{"stop short", 2, process, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.stop(ctx, plan.One(d, r.clients), d.Between(5*time.Millisecond, r.options.MinTTL*3/4))
}}

// stopLong stops it for so long that others take over: it wakes up in the midst of a write, or of anything else, and
// goes on as if nothing had been.
var stopLong = fault{"stop long", 4, process, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.stop(ctx, plan.One(d, r.clients), d.Between(r.options.MaxTTL, r.options.MaxTTL*5/2))
}}

// stop stops the present life of a client.
func (r *run) stop(ctx context.Context, c *client, pause time.Duration) (deed, error) {
	l := c.present()
	if l == nil {
		return nobody(c), nil
	}
	l.process.freeze()
	sleep(ctx, pause)
	l.process.wake()
	return deed{l.label, fmt.Sprintf("for %v", pause)}, nil
}

// killed ends a process with kill -9, wherever it is. Another life follows.
var killed = fault{"kill", 2, process, func(_ context.Context, r *run, d plan.Dice) (deed, error) {
	c := plan.One(d, r.clients)
	l := c.present()
	if l == nil {
		return nobody(c), nil
	}
	l.kill()
	return deed{client: l.label}, nil
}}
