package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/jackc/pgx/v5"
	goredislib "github.com/redis/go-redis/v9"
)

// errNoToken: a redsync.Mutex has a random value that tells its holders apart and does not order them.
var errNoToken = errors.New("control: a mutex of redsync has no token that a fence could compare")

// A redLock is a mutex of redsync with its defaults, but for the expiry. redsync extends nothing by itself: the holder
// does, every third of the expiry, as the description of Redlock suggests for work that may take longer.
type redLock struct {
	setup   Setup
	clients []*goredislib.Client
	sync    *redsync.Redsync
	renewed func(time.Duration)
}

func openRedlock(s Setup, renewed func(time.Duration)) *redLock {
	l := &redLock{setup: s, renewed: renewed}
	var pools []redis.Pool
	for _, socket := range s.Nodes {
		client := goredislib.NewClient(&goredislib.Options{Network: "unix", Addr: socket})
		l.clients = append(l.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	l.sync = redsync.New(pools...)
	return l
}

func (l *redLock) take(ctx context.Context) (term, error) {
	mutex := l.sync.NewMutex(l.setup.Name, redsync.WithExpiry(l.setup.TTL))
	for {
		// "In case it returns an error on failure, you may retry to acquire the lock by calling this method again."
		if err := mutex.LockContext(ctx); err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	t := &redTerm{mutex: mutex, ended: make(chan struct{})}
	t.until.Store(new(mutex.Until()))
	t.extending.Go(func() { t.extend(l.setup.TTL/3, l.renewed) })
	return t, nil
}

func (l *redLock) close() {
	for _, client := range l.clients {
		_ = client.Close()
	}
}

type redTerm struct {
	mutex     *redsync.Mutex
	until     atomic.Pointer[time.Time] // of the last good extension; the mutex's own is the extending goroutine's
	ended     chan struct{}
	extending sync.WaitGroup
}

// extend extends the mutex until release, and not when it has run out: then it may be somebody else's. One extension that
// fails ends nothing, the validity does.
func (t *redTerm) extend(every time.Duration, renewed func(time.Duration)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-t.ended:
			return
		case <-tick.C:
		}
		if t.validFor() <= 0 {
			return
		}
		ctx, cancel := context.WithDeadline(context.Background(), *t.until.Load())
		ok, err := t.mutex.ExtendContext(ctx)
		cancel()
		if ok && err == nil {
			t.until.Store(new(t.mutex.Until()))
			renewed(t.validFor())
		}
	}
}

func (t *redTerm) validFor() time.Duration { return time.Until(*t.until.Load()) }

func (t *redTerm) ask(ctx context.Context, q Question) error {
	switch q {
	case Clock, Context:
		if t.validFor() <= 0 {
			return errOver
		}
	case Nodes:
		// An error beside true is of the minority.
		if ok, _ := t.mutex.ValidContext(ctx); !ok { //nolint:staticcheck // deprecated, and it sees what Until cannot
			return errOver
		}
	}
	return nil
}

func (t *redTerm) while(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, *t.until.Load())
}

func (t *redTerm) pass(context.Context, pgx.Tx) error { return errNoToken }

func (t *redTerm) release(ctx context.Context) {
	close(t.ended)
	t.extending.Wait()
	_, _ = t.mutex.UnlockContext(ctx) // It may have run out: that is what is tried.
}
