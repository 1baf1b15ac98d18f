package pglock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// A wait decides how a blocking acquire goes on after each answer, and words what it waits for.
type wait struct {
	client *Client
	name   string
	since  time.Time
	tell   time.Duration // after that long the log says what is waited for
	busy   int           // busy answers in a row
	failed int           // failures in a row
	held   *HeldError    // the last answer, if it was that
	last   error         // the last error, if it was that
}

func newWait(c *Client, name string) *wait {
	return &wait{client: c, name: name, since: time.Now(), tell: time.Second}
}

// next takes an answer that was no lease. It returns how long to wait before the next question, or the error that ends
// the wait.
func (w *wait) next(ctx context.Context, answer error) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err() // The answer is that the time is up; held and last tell what was before.
	}
	poll := w.client.config.PollInterval
	var held *HeldError
	switch {
	case errors.As(answer, &held):
		w.held, w.last, w.busy, w.failed = held, nil, 0, 0
		w.report(ctx)
		// A hair past the expiry: the database decides by its own clock, and asking early would cost a whole turn.
		return min(shorten(poll, 0.5), held.TimeLeft+time.Millisecond), nil
	case errors.Is(answer, errBusy):
		w.busy++
		w.held, w.last, w.failed = &HeldError{Name: w.name, Busy: true}, nil, 0
		w.report(ctx)
		// Milliseconds at first, for another attempt; a fenced transaction may take as long as a holder.
		return shorten(min(busyPause<<min(w.busy, 10), max(poll, busyMaxPause)), 0.5), nil
	case errors.Is(answer, errStaleGrant):
		return backOff(1), nil
	case transient(answer):
		w.failed++
		w.held, w.last, w.busy = nil, answer, 0
		w.report(ctx)
		return shorten(min(25*time.Millisecond<<min(w.failed, 10), max(poll, time.Second)), 0.5), nil
	}
	return 0, answer
}

// report says what is waited for: after a second, and then whenever the wait has doubled.
func (w *wait) report(ctx context.Context) {
	waited := time.Since(w.since)
	if waited < w.tell {
		return
	}
	w.tell = 2 * waited
	attrs := []slog.Attr{slog.String("name", w.name), slog.Duration("waited", waited.Round(time.Millisecond))}
	switch {
	case w.last != nil:
		attrs = append(attrs, slog.Any("error", w.last))
	case w.held.Busy:
		attrs = append(attrs, slog.Bool("busy", true))
	default:
		attrs = append(attrs, slog.String("holder", w.held.Holder), slog.Int64("token", int64(w.held.Token)),
			slog.Duration("expires_in", w.held.TimeLeft))
	}
	w.client.config.Logger.LogAttrs(ctx, slog.LevelInfo, "pglock: waiting", attrs...)
}

// end words why the wait is over without a lease.
func (w *wait) end(ctx context.Context, final error) error {
	switch {
	case ctx.Err() == nil:
		return final
	case w.held != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), w.held)
	case w.last != nil:
		return fmt.Errorf("%w: the database could not be asked: %w", ctx.Err(), w.last)
	}
	return ctx.Err()
}
