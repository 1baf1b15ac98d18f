package main

import (
	"context"
	"sync"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/pglock"
)

// stand gives back what the client has, and has it stand for every name once more, at the same time.
//
// The process goes on for some time after that, holding nothing that it knows of: a lease that it was never handed and renews
// all the same would keep the others out.
func (c *client) stand(ctx context.Context) {
	end := time.Now().Add(c.setup.MaxTTL * 3 / 2)
	for _, l := range c.taken() {
		c.giveBack(ctx, l)
	}
	ctx, cancel := context.WithTimeout(ctx, c.setup.Stand)
	defer cancel()
	var all sync.WaitGroup
	for _, name := range c.setup.Names {
		all.Go(func() { c.standFor(ctx, name) })
	}
	all.Wait()
	sleep(ctx, time.Until(end))
}

// standFor notes nothing at its end if the name is not to be had: that is for the judge to miss.
func (c *client) standFor(ctx context.Context, name string) {
	c.book.Note(clock.Now(), history.Event{Kind: history.KindCandidate, Name: name})
	for ctx.Err() == nil {
		from := clock.Now()
		lease, err := c.acquire(ctx, name, c.locks.Acquire)
		if err != nil {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		stood := event(lease, history.KindStood, "")
		stood.From, stood.To = from, clock.Now()
		c.giveBack(ctx, lease)
		c.book.Put(stood)
		return
	}
}

func (c *client) giveBack(ctx context.Context, l *pglock.Lease) {
	from := clock.Now()
	said := "released"
	if err := c.release(ctx, l); err != nil {
		said = err.Error()
	}
	c.book.Note(from, event(l, history.KindEnded, said))
}
