package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
)

// expiry is Leasehold's default.
const expiry = time.Minute

func connect(n *stage.Node) *goredislib.Client {
	return goredislib.NewClient(&goredislib.Options{Network: "unix", Addr: n.Socket(), PoolSize: most})
}

func openRedsync(_ context.Context, g *ground) (peer, error) {
	return redsyncOn("go-redsync/redsync, 3 nodes in memory", g.memory), nil
}

func openRedsyncOnDisk(_ context.Context, g *ground) (peer, error) {
	return redsyncOn("go-redsync/redsync, 3 nodes, fsync always", g.onDisk), nil
}

func redsyncOn(name string, nodes []*stage.Node) peer {
	var clients []*goredislib.Client
	var pools []redis.Pool
	for _, n := range nodes {
		client := connect(n)
		clients = append(clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	sync := redsync.New(pools...)
	return peer{name, func(ctx context.Context, client int) error {
		mutex := sync.NewMutex(fmt.Sprint("redsync", client), redsync.WithExpiry(expiry))
		if err := mutex.TryLockContext(ctx); err != nil {
			return err
		}
		_, err := mutex.UnlockContext(ctx)
		return err
	}, func() {
		for _, client := range clients {
			_ = client.Close()
		}
	}}
}

func openRedislock(_ context.Context, g *ground) (peer, error) {
	client := connect(g.memory[0])
	locker := redislock.New(client)
	return peer{"bsm/redislock, 1 node in memory", func(ctx context.Context, n int) error {
		l, err := locker.Obtain(ctx, fmt.Sprint("redislock", n), expiry, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}, func() { _ = client.Close() }}, nil
}
