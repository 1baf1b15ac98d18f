package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// freezeShort stops all processes of the server for less than a TTL.
var freezeShort = fault{"freeze short", 4, server, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.freeze(ctx, d.Between(20*time.Millisecond, r.options.MinTTL/2))
}}

// freezeLong stops them for longer than any TTL: what was sent meanwhile is read by a server that thinks all leases
// expired.
var freezeLong = fault{"freeze long", 2, server, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.freeze(ctx, d.Between(r.options.MaxTTL, r.options.MaxTTL*3/2))
}}

func (r *run) freeze(ctx context.Context, pause time.Duration) (deed, error) {
	r.whole.Lock()
	defer r.whole.Unlock()
	if err := r.options.Server.Pause(); err != nil {
		return deed{}, err
	}
	sleep(ctx, pause)
	return deed{text: fmt.Sprint("for ", pause)}, r.options.Server.Resume()
}

// restartFast ends all sessions, writes a checkpoint and starts again.
var restartFast = fault{"restart fast", 1, server, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.restart(ctx, pgserver.Fast, d.Between(0, 300*time.Millisecond))
}}

// restartImmediate is a crash of the server with recovery: what was committed asynchronously may be gone.
var restartImmediate = fault{"restart immediate", 1, server, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.restart(ctx, pgserver.Immediate, d.Between(0, 300*time.Millisecond))
}}

func (r *run) restart(ctx context.Context, mode pgserver.Mode, pause time.Duration) (deed, error) {
	r.whole.Lock()
	defer r.whole.Unlock()
	from := clock.Now()
	if err := r.options.Server.Stop(mode); err != nil {
		return deed{}, err
	}
	if mode == pgserver.Immediate {
		r.book.Note(from, history.Event{Kind: history.KindCrash, Text: "immediate"})
	}
	sleep(ctx, pause)
	return deed{text: fmt.Sprint("away for ", pause)}, r.options.Server.Start()
}
