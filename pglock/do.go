package pglock

import (
	"context"
	"errors"
	"log/slog"
)

// Work is what runs under a lease. It cannot be called without one: only a confirmed grant makes a lease. ctx ends when the
// caller's does and when the lease is lost.
type Work = func(ctx context.Context, lease *Lease) error

// Do waits for the lease like [Client.Acquire], runs work, and releases the lease when work has returned.
//
// The lease is renewed until work has returned, also while work winds down after ctx has ended: nobody else starts
// beside it. If work panics the lease is released and the panic goes on.
//
// It returns the error of acquire, or that of work; if the lease was lost meanwhile, the error matches [ErrLost] too, even if
// work returned nil: what work did outside the fence may have been done twice. A release that could not be confirmed is
// logged, because the work is done and the lease expires by itself.
func (c *Client) Do(ctx context.Context, name string, work Work) error {
	if work == nil {
		return errNoWork
	}
	lease, err := c.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return c.do(ctx, lease, work)
}

// TryDo is [Client.Do] for work that is skipped if somebody else is at it: it asks once, like [Client.TryAcquire], and the error then
// matches [ErrNotAcquired].
func (c *Client) TryDo(ctx context.Context, name string, work Work) error {
	if work == nil {
		return errNoWork
	}
	lease, err := c.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	return c.do(ctx, lease, work)
}

func (c *Client) do(ctx context.Context, lease *Lease, work Work) (err error) {
	working, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
	defer func() { // Deferred, so that a panic or runtime.Goexit in work releases too.
		unhook()
		cancel(context.Canceled)
		released := lease.Release(ctx)
		switch {
		case errors.Is(released, ErrLost):
			err = errors.Join(err, released)
		case released != nil:
			c.config.Logger.Warn("pglock: released without an answer", slog.String("name", lease.name), slog.Any("error", released))
		}
	}()
	return work(working, lease)
}

// errNoWork is nothing to do, found before anything is asked.
var errNoWork = errors.New("pglock: no work given")
