//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/faultnet"
)

// A fault is a way to lose a leader, or the way to it. do breaks something, waits for what comes of it, and mends it; it returns what it
// did. A new one is a value here and a line in the list.
type fault struct {
	name     string
	often    int  // of 20 rounds
	failover bool // another member leads afterwards
	do       func(ctx context.Context, r *run, leader *cluster.Member) (string, error)
}

var faults = []fault{
	{"kill", 4, true, kill},
	{"kill behind", 4, true, killBehind},
	{"freeze", 4, true, freeze},
	{"cut off", 3, true, cutOff},
	{"cut from etcd, one way", 2, true, cutFromEtcd},
	{"cut from clients", 1, false, cutFromClients},
	{"cut from replicas", 1, false, cutFromReplicas},
	{"switchover", 1, true, switchover},
}

func faultNamed(name string) fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	panic("no fault " + name)
}

// kill is kill -9 of all processes of the leader's machine.
func kill(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	if err := leader.Kill(); err != nil {
		return "", err
	}
	return replaced(ctx, r.c, leader, leader.Start)
}

// killBehind has the replicas get nothing for a moment first: what the leader confirms then is lost if it does not wait for them.
func killBehind(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	behind := between(r.dice, 300*time.Millisecond, 1500*time.Millisecond)
	leader.Peers.Set(faultnet.BlackHole())
	sleep(ctx, behind)
	if err := leader.Kill(); err != nil {
		return "", err
	}
	said, err := replaced(ctx, r.c, leader, func() error {
		leader.Heal()
		return leader.Start()
	})
	return fmt.Sprintf("%v behind, %s", behind, said), err
}

// freeze stops everything on the leader's machine until another leads, and lets it go on: PostgreSQL first, and Patroni, which
// would tell it, a moment later. A worker is frozen and wakes with it, as a service on the same machine would be: its sessions still lead to the
// former leader.
func freeze(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	asleep, unwatched := between(r.dice, 0, 2*time.Second), between(r.dice, 500*time.Millisecond, 3*time.Second)
	near := r.dice.IntN(len(r.load.workers))
	r.load.signal(near, syscall.SIGSTOP)
	leader.Freeze()
	wake := func() {
		leader.Wake()
		r.load.signal(near, syscall.SIGCONT)
	}
	defer wake() // Also if no other leader comes.
	said, err := replaced(ctx, r.c, leader, func() error {
		sleep(ctx, asleep)
		leader.WakePostgres()
		r.load.signal(near, syscall.SIGCONT)
		sleep(ctx, unwatched)
		wake()
		return nil
	})
	return fmt.Sprintf("%s, with worker %d, awake for %v before Patroni", said, near+1, unwatched), err
}

// cutOff parts the leader from etcd and from the other members. Clients still reach it.
func cutOff(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	for _, p := range []*faultnet.Proxy{leader.ToEtcd, leader.Peers, leader.PeersREST} {
		p.Set(faultnet.BlackHole())
	}
	defer leader.Heal()
	return replaced(ctx, r.c, leader, func() error { return nil })
}

// cutFromEtcd has the leader's questions arrive in etcd, and no answer come back.
func cutFromEtcd(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	leader.ToEtcd.Set(faultnet.DropReplies())
	defer leader.Heal()
	return replaced(ctx, r.c, leader, func() error { return nil })
}

// cutFromClients leaves the cluster alone: nobody fails over because clients cannot get through.
func cutFromClients(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	mode, said := faultnet.BlackHole(), "both ways"
	if r.dice.IntN(2) == 0 {
		mode, said = faultnet.DropReplies(), "answers only"
	}
	leader.Clients.Set(mode)
	defer leader.Heal()
	pause := between(r.dice, 3*time.Second, 10*time.Second)
	sleep(ctx, pause)
	return fmt.Sprintf("%s, for %v", said, pause), nil
}

// cutFromReplicas leaves the leader its key, so that nobody fails over. What it confirms alone reaches the replicas later, unless it
// confirms nothing without them.
func cutFromReplicas(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	leader.Peers.Set(faultnet.BlackHole())
	defer leader.Heal()
	pause := between(r.dice, 3*time.Second, 10*time.Second)
	sleep(ctx, pause)
	return fmt.Sprintf("for %v", pause), nil
}

func switchover(ctx context.Context, r *run, leader *cluster.Member) (string, error) {
	if err := r.c.Switchover(ctx, leader); err != nil {
		return "", err
	}
	return replaced(ctx, r.c, leader, func() error { return nil })
}

// replaced waits for another leader, and brings the former one back.
func replaced(ctx context.Context, c *cluster.Cluster, former *cluster.Member, mend func() error) (string, error) {
	next, err := c.Leader(ctx, former)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, now %s", former.Name, next.Name), mend()
}

func between(d *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1)).Round(time.Millisecond)
}
