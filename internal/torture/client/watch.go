package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
	"github.com/leasehold-go/leasehold/pglock"
)

// watch asks the client's leases again and again whether they are trusted, also those that are over: a loss is final.
func (c *client) watch(ctx context.Context) {
	for sleep(ctx, c.setup.Watch) {
		held, over := c.watched()
		for _, l := range held {
			if !c.ask(l) && c.drop(l) {
				c.end(l)
			}
		}
		for _, l := range over {
			c.ask(l)
		}
	}
}

// watched lists the leases that are held and those that are over.
func (c *client) watched() (held, over []*pglock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held = append(slices.Collect(maps.Values(c.leases)), c.loose...)
	for _, list := range c.over {
		over = append(over, list...)
	}
	return held, over
}

// ask notes that a lease is trusted and for how long. It is false if it is not.
func (c *client) ask(l *pglock.Lease) bool {
	ended := l.Context().Err() != nil
	from := clock.Now()
	left := l.TimeLeft()
	if left == 0 {
		c.endsByItself(l, from)
	}
	if l.Err() != nil {
		return false
	}
	trusts := event(l, history.KindTrusts, "")
	trusts.Left, trusts.Margin = left.Microseconds(), c.margin().Microseconds()
	c.book.Note(from, trusts)
	if ended {
		c.book.Remark("%sthe context of %q, token %d, has ended, and the lease goes on", protocol.NoteStrange, l.Name(), l.Token())
	}
	return true
}

// endsByItself sees to it that the context of a term that is over ends: work that looks at nothing else trusts the lease
// meanwhile. Err would end it.
func (c *client) endsByItself(l *pglock.Lease, from int64) {
	late := time.NewTimer(time.Second) // Far more than a loaded machine needs.
	defer late.Stop()
	select {
	case <-l.Context().Done():
	case <-late.C:
	}
	if l.Context().Err() == nil {
		trusts := event(l, history.KindTrusts, "context")
		trusts.Left = 1
		c.book.Note(from, trusts)
	}
}

// end notes the end of a term that the client did not end itself.
func (c *client) end(l *pglock.Lease) {
	c.former(l)
	from, end := clock.Now(), l.Err()
	if end == nil { // Somebody gave us a second lease of the name beside it: the judge will say so.
		c.ask(l)
		return
	}
	c.book.Note(from, event(l, history.KindEnded, end.Error()))
	var loss *pglock.LostError
	if errors.As(end, &loss) {
		c.count("losses")
		c.count("lost: " + string(loss.Reason))
	}
}
