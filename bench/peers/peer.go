package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
)

// most is the largest number of clients, and the connections that each peer may have.
const most = 32

// A peer takes and releases a lock of a client's own that nobody else wants.
type peer struct {
	name string
	// cycle is one grant and one release.
	cycle func(ctx context.Context, client int) error
	close func()
}

// A ground is what the peers stand on.
type ground struct {
	dsn            string
	memory, onDisk []*stage.Node // three Redis nodes each
}

// An opener opens a peer.
type opener func(context.Context, *ground) (peer, error)

// openers are those of all peers, the floor first.
func openers() []opener {
	return []opener{
		openFloor, openLeasehold, openSession, openGoPglock, openPglock, openPglockSilent,
		openRedsync, openRedsyncOnDisk, openRedislock,
	}
}

// open opens all peers.
func (g *ground) open(ctx context.Context) (peers []peer, err error) {
	for _, open := range openers() {
		p, err := open(ctx, g)
		if err != nil {
			return peers, err
		}
		peers = append(peers, p)
		if err := p.cycle(ctx, 0); err != nil { // The first cycle connects.
			return peers, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return peers, nil
}

// pool is a pool of a peer's own.
func (g *ground) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(g.dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = most
	return pgxpool.NewWithConfig(ctx, config)
}
