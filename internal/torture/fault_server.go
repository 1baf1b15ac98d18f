package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// freezeShort stops all processes of the server for less than a TTL.
var freezeShort = fault{"freeze short", 4, server, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.freeze(ctx, d.between(20*time.Millisecond, r.options.MinTTL/2))
}}

// freezeLong stops them for longer than any TTL: what was sent meanwhile is read by a server that thinks all leases
// expired.
var freezeLong = fault{"freeze long", 2, server, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.freeze(ctx, d.between(r.options.MaxTTL, r.options.MaxTTL*3/2))
}}

func (r *run) freeze(ctx context.Context, pause time.Duration) (string, error) {
	if err := r.options.Server.Pause(); err != nil {
		return "", err
	}
	sleep(ctx, pause)
	return fmt.Sprint("for ", pause), r.options.Server.Resume()
}

// restartFast ends all sessions, writes a checkpoint and starts again.
var restartFast = fault{"restart fast", 1, server, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.restart(ctx, pgserver.Fast, d.between(0, 300*time.Millisecond))
}}

// restartImmediate is a crash of the server with recovery: what was committed asynchronously may be gone.
var restartImmediate = fault{"restart immediate", 1, server, func(ctx context.Context, r *run, d dice) (string, error) {
	return r.restart(ctx, pgserver.Immediate, d.between(0, 300*time.Millisecond))
}}

func (r *run) restart(ctx context.Context, mode pgserver.Mode, pause time.Duration) (string, error) {
	if err := r.options.Server.Stop(mode); err != nil {
		return "", err
	}
	sleep(ctx, pause)
	return fmt.Sprint("away for ", pause), r.options.Server.Start()
}
