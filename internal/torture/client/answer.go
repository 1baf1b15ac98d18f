package main

import (
	"context"
	"errors"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/pglock"
)

// An asking is Acquire or TryAcquire.
type asking func(ctx context.Context, name string) (*pglock.Lease, error)

// acquire asks for a lease and notes the answer.
func (c *client) acquire(ctx context.Context, name string, ask asking) (*pglock.Lease, error) {
	from := clock.Now()
	lease, err := ask(ctx, name)
	answer := history.Event{Kind: history.KindAnswer, Name: name}
	var held *pglock.HeldError
	if errors.As(err, &held) {
		answer.Seen = int64(held.Token)
	}
	switch {
	case err == nil:
		answer.Token, answer.Text = int64(lease.Token()), history.AnswerGranted
	case !errors.Is(err, pglock.ErrNotAcquired):
		answer.Text = history.AnswerUnknown + ": " + err.Error()
		c.strange("acquire", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		answer.Text = history.AnswerGaveUp
	case held != nil && held.Busy:
		answer.Text = history.AnswerBusy
	default:
		answer.Text = history.AnswerHeld
	}
	c.book.Note(from, answer)
	if err != nil {
		return nil, err
	}
	from = clock.Now()
	granted := event(lease, history.KindGranted, "")
	granted.Left, granted.Margin = lease.TimeLeft().Microseconds(), c.margin().Microseconds()
	c.book.Note(from, granted)
	return lease, nil
}

// keep is acquire for a lease that the client goes on with.
func (c *client) keep(ctx context.Context, name string, ask asking) {
	lease, err := c.acquire(ctx, name, ask)
	if err != nil {
		return
	}
	c.mu.Lock()
	before, found := c.leases[name]
	c.leases[name] = lease
	c.mu.Unlock()
	if found { // Lost, and the watch has not looked since.
		c.end(before)
	}
}

// release gives a lease back and notes what came of it. The client does not hold it any more. A second call says what the
// first has found, and nothing of the present: it is not noted.
func (c *client) release(ctx context.Context, l *pglock.Lease) error {
	c.mu.Lock()
	again := c.freed[l]
	c.freed[l] = true
	c.mu.Unlock()
	from := clock.Now()
	err := l.Release(ctx)
	if again {
		return err
	}
	said := history.ReleaseDone
	switch {
	case errors.Is(err, pglock.ErrLost):
		said = history.ReleaseLost + ": " + err.Error()
	case err != nil:
		said = history.ReleaseUnknown + ": " + err.Error()
		c.strange("release", err)
	}
	c.book.Note(from, event(l, history.KindReleased, said))
	return err
}
