package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/faultnet"
)

// reset cuts all connections of a client with a TCP reset, before or after a commit as it happens.
var reset = fault{"reset", 5, network, func(_ context.Context, r *run, d dice) (string, error) {
	c := one(d, r.clients)
	if p := c.link(); p != nil {
		p.Reset()
	}
	return fmt.Sprint("client ", c.number), nil
}}

// blackHole swallows what a client sends and is sent, for longer than a TTL now and then. Connections that lost bytes
// stay silent afterwards, until somebody gives them up.
var blackHole = fault{"black hole", 4, network, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.breakFor(ctx, d, faultnet.BlackHole(), 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// held keeps bytes back and delivers them then: a renewal, a release or a commit arrives when the world has changed.
var held = fault{"held back", 5, network, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.breakFor(ctx, d, faultnet.Hold(), 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// late makes a client's network slow.
var late = fault{"delay", 3, network, func(ctx context.Context, r *run, d dice) (string, error) {
	by := d.between(5*time.Millisecond, r.options.MinTTL/4)
	return r.breakFor(ctx, d, faultnet.Delay(by), 200*time.Millisecond, 1200*time.Millisecond), nil
}}

// dropReplies has the server do what it is asked, and nobody hears of it: committed, but not answered.
var dropReplies = fault{"replies dropped", 4, network, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.breakFor(ctx, d, faultnet.DropReplies(), 30*time.Millisecond, r.options.MinTTL), nil
}}

// refused refuses new connections and cuts the open ones, as a restart of something in between does.
var refused = fault{"refused", 2, network, func(ctx context.Context, r *run, d dice) (string, error) {
	c, pause := one(d, r.clients), d.between(50*time.Millisecond, r.options.MaxTTL)
	p := c.link()
	c.set(p, faultnet.Refuse())
	if p != nil {
		p.Reset()
	}
	sleep(ctx, pause)
	c.set(p, faultnet.Pass())
	return fmt.Sprintf("client %d for %v", c.number, pause), nil
}}

// breakFor sets the mode of one client's proxy for a time from low to high; every other time the connections of then do not
// survive it.
func (r *run) breakFor(ctx context.Context, d dice, mode faultnet.Mode, low, high time.Duration) string {
	c, pause, cut := one(d, r.clients), d.between(low, high), d.IntN(2) == 0
	p := c.link()
	c.set(p, mode)
	sleep(ctx, pause)
	c.set(p, faultnet.Pass())
	if cut && p != nil {
		p.Reset()
	}
	return fmt.Sprintf("client %d for %v, cut afterwards: %v", c.number, pause, cut)
}
