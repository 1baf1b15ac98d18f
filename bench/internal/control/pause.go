package control

import (
	"context"
	"errors"
	"time"
)

// A Fault is what happens to the first worker's turn.
type Fault string

// The faults that are no pause.
const (
	RestartAtOnce   Fault = "restart at once"
	RestartLater    Fault = "restart after the expiry"
	RestartDurable  Fault = "restart at once, fsync always"
	RestartDatabase Fault = "database restarts at once"
)

// Pause is the fault of a process that is frozen at a step.
func Pause(s Step) Fault { return Fault("pause: " + s) }

// pause freezes a at a step until b was granted and, if nothing keeps it waiting, is through. Then a goes on.
func (c *cell) pause(ctx context.Context, number int, step Step, ttl time.Duration) (Round, error) {
	t, err := c.open(ctx, Pause(step), number)
	if err != nil {
		return t.round, err
	}
	thaw, err := t.stop(ctx, step)
	if err != nil {
		return t.round, err
	}

	// A grant waits for a transaction that has passed the fence, so this pause has to end by itself.
	open := step == Wrote || step == Commit
	within := patience
	if open && c.regime.Fenced {
		within = 2 * ttl
	}
	if err := c.b.begin(turn{number, Asked}); err != nil {
		return t.round, err
	}
	granted, err := t.bReads(ctx, within, false)
	if err != nil {
		return t.round, err
	}
	if granted {
		if err := c.b.goOn(); err != nil {
			return t.round, err
		}
		if !open { // Else b waits for the row that a has written.
			if err := t.finish(ctx, c.b); err != nil {
				return t.round, err
			}
		}
	}
	if err := thaw(); err != nil {
		return t.round, err
	}
	if err := t.finish(ctx, c.a); err != nil {
		return t.round, err
	}
	switch {
	case !granted:
		err = c.bAfterwards(ctx, t)
	case open:
		err = t.finish(ctx, c.b)
	}
	if err != nil {
		return t.round, err
	}
	return t.close(ctx)
}

// stop begins a's turn and freezes it at the step. thaw wakes up what was frozen.
func (t *tally) stop(ctx context.Context, step Step) (thaw func() error, err error) {
	a := t.cell.a
	if err := a.begin(turn{t.round.Number, step}); err != nil {
		return nil, err
	}
	if _, err := a.await(ctx, isGranted); err != nil {
		return nil, err
	}
	t.round.Grants++
	at, err := a.await(ctx, isStopping)
	if err != nil {
		return nil, err
	}
	pid := a.cmd.Process.Pid
	t.round.Pauses++
	if step != Commit {
		if err := freeze(ctx, pid); err != nil {
			return nil, err
		}
		return func() error { return wake(pid) }, a.goOn()
	}

	// COMMIT is under way: it has left a, which is then frozen, and the server's process does not read it yet.
	if err := freeze(ctx, at.Backend); err != nil {
		return nil, err
	}
	if err := a.goOn(); err != nil {
		return nil, err
	}
	if _, err := a.await(ctx, isSending); err != nil {
		return nil, err
	}
	if err := arrived(ctx, at.ServerPort, at.ClientPort); err != nil {
		return nil, err
	}
	if err := freeze(ctx, pid); err != nil {
		return nil, err
	}
	return func() error {
		if err := wake(at.Backend); err != nil {
			return err
		}
		// What a does about it when it wakes up comes too late, in each round and not only in most.
		err := until(ctx, func() (bool, error) { return t.aWritten(ctx) })
		return errors.Join(err, wake(pid))
	}, nil
}
