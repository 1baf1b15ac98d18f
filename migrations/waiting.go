package migrations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// waiting is one wait for others: for the lock, or for a table that is in use.
type waiting struct {
	migrator   *migrator
	pause      time.Duration
	collisions int

	since  time.Time // of the first attempt that found the lock taken
	looked time.Time // when the holder was last looked up
	holder string
}

const (
	firstPause    = 20 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	lookEvery     = 5 * time.Second
	maxCollisions = 5
)

// look finds out who has the lock, now and then, and says so. Most waits are too short for it.
func (w *waiting) look(ctx context.Context, tx transaction, err error) {
	var busy *busyError
	if !errors.As(err, &busy) {
		return
	}
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if now.Sub(w.since) < time.Second || now.Sub(w.looked) < lookEvery {
		return
	}
	w.looked = now
	w.holder = tx.holder(ctx, busy.keys)
	w.migrator.logger.WarnContext(ctx, "waiting for another process that migrates this schema",
		"waited", now.Sub(w.since).Round(time.Millisecond), "lock_held_by", w.holder)
}

// sleep waits before the next attempt, or returns an error if there is to be none: err itself, or why the wait ended.
func (w *waiting) sleep(ctx context.Context, err error) error {
	var busy *busyError
	switch state := sqlState(err); {
	case errors.As(err, &busy):
	case state == "55P03": // lock_timeout
		w.migrator.logger.WarnContext(ctx, "a table is in use, trying again", "error", err)
	case collided(state) && w.collisions < maxCollisions:
		w.collisions++
	case ctx.Err() != nil && !w.since.IsZero():
		// The end came in the middle of an attempt. The others are still what was waited for.
		return w.ended(ctx, &busyError{})
	default:
		return err
	}
	// Jitter over half of the pause, so that ten that were started together spread out.
	timer := time.NewTimer(w.pause/2 + rand.N(w.pause/2))
	defer timer.Stop()
	w.pause = min(w.pause*3/2, longestPause)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return w.ended(ctx, err)
	}
}

// ended is the error of a wait that ctx ended.
func (w *waiting) ended(ctx context.Context, err error) error {
	if w.holder != "" {
		err = fmt.Errorf("%w (lock held by %s)", err, w.holder)
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("waiting: %w: %w", err, cause)
}

// collided reports whether two sessions made the same thing at once, or locked in opposite order. Ours are kept apart by the
// lock; this comes from somebody who does not take it.
func collided(sqlState string) bool {
	switch sqlState {
	case "23505", // unique_violation, in pg_namespace, pg_class or pg_type
		"40001", // serialization_failure
		"40P01", // deadlock_detected
		"42710", // duplicate_object
		"42P06", // duplicate_schema
		"42P07": // duplicate_table
		return true
	}
	return false
}
