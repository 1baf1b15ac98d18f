package torture

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/pglock"
)

// watch asks the client's leases again and again whether they are trusted, also those that are over: a loss is final.
func (c *client) watch(ctx context.Context) {
	for sleep(ctx, 12*time.Millisecond) {
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
func (c *client) watched() (held, over []term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held = append(slices.Collect(maps.Values(c.leases)), c.loose...)
	for _, list := range c.over {
		over = append(over, list...)
	}
	return held, over
}

// ask notes that a lease is trusted and for how long. It is false if it is not.
func (c *client) ask(l term) bool {
	from := c.log.now()
	left, err := l.TimeLeft(), l.Err()
	if err != nil {
		return false
	}
	trusts := l.event(history.KindTrusts, "")
	trusts.Left = left.Microseconds()
	c.log.note(from, trusts)
	return true
}

// drop takes a lease out of those held. It is false if an operation was quicker.
func (c *client) drop(l term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[l.Name()] == l {
		delete(c.leases, l.Name())
		return true
	}
	if i := slices.Index(c.loose, l); i >= 0 {
		c.loose = slices.Delete(c.loose, i, i+1)
		return true
	}
	return false
}

// end notes the end of a term that the client did not end itself.
func (c *client) end(l term) {
	c.former(l)
	from, end := c.log.now(), l.Err()
	if end == nil { // Somebody gave us a second lease of the name beside it: the judge will say so.
		c.ask(l)
		return
	}
	c.log.note(from, l.event(history.KindEnded, end.Error()))
	var loss *pglock.LostError
	if errors.As(end, &loss) {
		c.log.count("losses")
		c.log.count("lost: " + string(loss.Reason))
	}
}
