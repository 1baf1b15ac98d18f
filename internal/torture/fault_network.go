package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// reset cuts all connections of a client with a TCP reset.
var reset = fault{"reset", 4, network, func(_ context.Context, r *run, d plan.Dice) (deed, error) {
	c := plan.One(d, r.clients)
	l := c.present()
	if l == nil {
		return nobody(c), nil
	}
	l.proxy.Reset()
	return deed{client: l.label}, nil
}}

// resetBefore cuts a connection when a client has sent something and the server has not got it: a grant or a commit that never
// was.
var resetBefore = fault{"reset before", 3, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.failTrip(ctx, d, faultnet.BeforeSend()), nil
}}

// resetAfter cuts a connection when the server has done what it was asked, before its answer gets through: a grant or a
// commit that nobody hears of.
var resetAfter = fault{"reset after", 4, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.failTrip(ctx, d, faultnet.AfterSend()), nil
}}

// failTrip breaks one of the next round trips of a client, and waits until it has come.
func (r *run) failTrip(ctx context.Context, d plan.Dice, what faultnet.Fault) deed {
	c, n := plan.One(d, r.clients), 1+d.IntN(6)
	l := c.present()
	if l == nil {
		return nobody(c)
	}
	l.proxy.Wire().Fail(n, what)
	for end := time.Now().Add(r.options.MaxTTL); !l.proxy.Wire().Fired() && time.Now().Before(end); {
		if !sleep(ctx, 5*time.Millisecond) {
			break
		}
	}
	l.proxy.Wire().Heal()
	if !l.proxy.Wire().Fired() {
		return deed{l.label, fmt.Sprintf("round trip %d has not come", n)}
	}
	return deed{l.label, fmt.Sprintf("round trip %d", n)}
}

// blackHole swallows what a client sends and is sent, for longer than a TTL now and then. Connections that lost bytes
// stay silent afterwards, until somebody gives them up.
var blackHole = fault{"black hole", 3, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.BlackHole(), 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// held keeps bytes back and delivers them then: a renewal, a release or a commit arrives when the world has changed.
var held = fault{"held back", 4, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.Hold(), 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// late makes a client's network slow.
var late = fault{"delay", 2, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	by := d.Between(5*time.Millisecond, r.options.MinTTL/4)
	return r.breakFor(ctx, d, faultnet.Delay(by), 200*time.Millisecond, 1200*time.Millisecond), nil
}}

// lossy loses packets, which TCP sends again: what is lost comes late, and all behind it waits.
var lossy = fault{"loss", 3, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	mode := faultnet.Loss(0.05+d.Float64()*0.4, d.Uint64())
	return r.breakFor(ctx, d, mode, 200*time.Millisecond, 2*r.options.MaxTTL), nil
}}

// dropRequests is a partition in one direction: the server hears nothing, and what it still sends gets through.
var dropRequests = fault{"requests dropped", 3, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.Mode{Requests: faultnet.Swallowed()}, 30*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// dropReplies is a partition in the other direction: the server does what it is asked, and nobody hears of it. Committed, but
// not answered.
var dropReplies = fault{"replies dropped", 4, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.DropReplies(), 30*time.Millisecond, r.options.MinTTL), nil
}}

// holdRequests is a partition in one direction that TCP outlives.
var holdRequests = fault{"requests held back", 2, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.Mode{Requests: faultnet.Held()}, 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// holdReplies is a partition in the other direction that TCP outlives: the good news comes when it is not true any more.
var holdReplies = fault{"replies held back", 3, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.breakFor(ctx, d, faultnet.Mode{Replies: faultnet.Held()}, 50*time.Millisecond, r.options.MaxTTL*3/2), nil
}}

// refused refuses new connections and cuts the open ones, as a restart of something in between does.
var refused = fault{"refused", 2, network, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	c, pause := plan.One(d, r.clients), d.Between(50*time.Millisecond, r.options.MaxTTL)
	l := c.present()
	if l == nil {
		return nobody(c), nil
	}
	l.proxy.Set(faultnet.Refuse())
	l.proxy.Reset()
	sleep(ctx, pause)
	l.proxy.Set(faultnet.Pass())
	return deed{l.label, fmt.Sprintf("for %v", pause)}, nil
}}

// breakFor sets the mode of one client's proxy for a time from low to high; every other time the connections of then do not
// survive it.
func (r *run) breakFor(ctx context.Context, d plan.Dice, mode faultnet.Mode, low, high time.Duration) deed {
	c, pause, cut := plan.One(d, r.clients), d.Between(low, high), d.IntN(2) == 0
	l := c.present()
	if l == nil {
		return nobody(c)
	}
	l.proxy.Set(mode)
	sleep(ctx, pause)
	l.proxy.Set(faultnet.Pass())
	if cut {
		l.proxy.Reset()
	}
	return deed{l.label, fmt.Sprintf("for %v, cut afterwards: %v", pause, cut)}
}
