package pglock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// An orphan is an attempt whose grant exists, or may come to exist, without anybody knowing of it.
type orphan struct {
	name, holder string
	known        bool      // the grant exists: once asked, it is settled
	until        time.Time // from then on it has expired by itself
	pause        time.Duration
	next         time.Time
}

// A reaper frees the orphans of one client, all that are due in one statement, over one connection that is not the
// pool's: a pool in full use does not matter, and many cancelled attempts make no crowd.
//
// The statement of an attempt may reach the server after the first try to free it, so it is tried again, ever more
// slowly, until the row was freed or has expired by itself.
type reaper struct {
	client  *Client
	link    link
	orphans chan map[string]orphan // by holder: a mutex that nobody holds while asking
	wake    chan struct{}
}

// maxOrphans bounds the memory of a client whose attempts go on being cancelled. Beyond it they expire by themselves.
const maxOrphans = 10_000

// maxReaping bounds for how long one orphan is tried: a statement that is on its way for longer is not expected.
const maxReaping = 10 * time.Minute

func newReaper(c *Client) *reaper {
	r := &reaper{client: c, orphans: make(chan map[string]orphan, 1), wake: make(chan struct{}, 1)}
	r.link.open = c.connect
	r.orphans <- map[string]orphan{}
	return r
}

// add has an attempt freed. known says that its grant exists.
func (r *reaper) add(name, holder string, known bool) {
	c := r.client.config
	orphans := <-r.orphans
	if len(orphans) < maxOrphans {
		now := time.Now()
		orphans[holder] = orphan{
			name: name, holder: holder, known: known, next: now, pause: c.RequestTimeout / 4,
			until: now.Add(min(c.TTL, maxReaping) + c.RequestTimeout),
		}
	}
	r.orphans <- orphans
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run frees until ctx ends, and then once more all that is left.
func (r *reaper) run(ctx context.Context) {
	defer r.link.drop()
	for ctx.Err() == nil {
		wait, more := r.sweep(ctx, false)
		if !more {
			r.link.drop()
			select {
			case <-ctx.Done():
			case <-r.wake:
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	r.sweep(context.WithoutCancel(ctx), true)
}

// sweep asks for the orphans that are due, or for all. It returns how long until the next is due, and whether there is one.
func (r *reaper) sweep(ctx context.Context, all bool) (wait time.Duration, more bool) {
	now := time.Now()
	var names, holders []string
	orphans := <-r.orphans
	for holder, o := range orphans {
		if !now.Before(o.until) {
			delete(orphans, holder)
		} else if all || !now.Before(o.next) {
			names, holders = append(names, o.name), append(holders, holder)
			o.next, o.pause = now.Add(shorten(o.pause, 0.2)), 2*o.pause
			orphans[holder] = o
		}
	}
	r.orphans <- orphans

	var freed []string
	var err error
	if len(names) > 0 {
		freed, err = r.ask(ctx, names, holders)
	}
	orphans = <-r.orphans
	defer func() { r.orphans <- orphans }()
	if err == nil {
		for _, holder := range holders {
			if orphans[holder].known {
				delete(orphans, holder)
			}
		}
	}
	for _, holder := range freed {
		delete(orphans, holder)
	}
	for _, o := range orphans {
		if left := time.Until(o.next); !more || left < wait {
			wait, more = left, true
		}
	}
	return wait, more
}

func (r *reaper) ask(ctx context.Context, names, holders []string) ([]string, error) {
	c := r.client
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	s := c.quick.Load()
	if s == nil {
		return nil, ErrClosed // Nothing was ever asked, so nothing is there.
	}
	conn, err := r.link.get(ctx)
	if err != nil {
		return nil, err
	}
	freed, err := query(ctx, c, conn, pgx.RowTo[string], s.reap, names, holders)
	if err != nil {
		r.link.judge(err)
	}
	return freed, err
}
