package control

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Round is one turn of each of two workers, with a fault in the first one's, and what became of them.
type Round struct {
	Regime string
	Fault  Fault
	Number int

	Pauses       int // processes that were frozen
	Grants       int
	Acknowledged int // turns whose COMMIT succeeded, as the worker knows
	Overlaps     int // grants while the other's lock had not run out, by what that lock itself said
	Stale        int // commits of a holder after the other was granted
	Lost         int // acknowledged increments that are not in the value
	Refused      int // by the fence
	GaveUp       int // by the holder itself
	Unknown      int // turns that ended in an error
}

// A cell is two workers of one regime, and their account.
type cell struct {
	pool   *pgxpool.Pool // the controller's own
	regime Regime
	name   string
	a, b   *process
}

// A tally counts one round.
type tally struct {
	cell          *cell
	round         Round
	before        int64
	aCommitted    bool // when b was granted
	bGrantedFirst bool // before a's turn was over
}

func (c *cell) open(ctx context.Context, fault Fault, number int) (*tally, error) {
	before, err := readValue(ctx, c.pool, c.name)
	return &tally{cell: c, before: before, round: Round{Regime: c.regime.Name, Fault: fault, Number: number}}, err
}

// granted notes b's grant; aOver says that a's turn was over already.
func (t *tally) granted(ctx context.Context, e event, aOver bool) (err error) {
	t.round.Grants++
	if aOver {
		return nil
	}
	t.bGrantedFirst = true
	if e.At < t.cell.a.validUntil {
		t.round.Overlaps++
	}
	t.aCommitted, err = t.aWritten(ctx)
	return err
}

// aWritten says whether a's transaction has committed.
func (t *tally) aWritten(ctx context.Context) (bool, error) {
	return written(ctx, t.cell.pool, t.cell.name, t.round.Number, t.cell.a.label)
}

// over notes how a turn ended.
func (t *tally) over(e event) {
	switch e.Outcome {
	case Acknowledged:
		t.round.Acknowledged++
	case Refused:
		t.round.Refused++
	case GaveUp:
		t.round.GaveUp++
	case Failed:
		t.round.Unknown++
	}
}

// close counts what is in the tables when both turns are over.
func (t *tally) close(ctx context.Context) (Round, error) {
	after, err := readValue(ctx, t.cell.pool, t.cell.name)
	if err != nil {
		return t.round, err
	}
	t.round.Lost = max(0, t.round.Acknowledged-int(after-t.before))
	committed, err := t.aWritten(ctx)
	if committed && t.bGrantedFirst && !t.aCommitted {
		t.round.Stale++
	}
	return t.round, err
}

// bReads lets b take the lock and read, if it is granted within the limit; it waits there.
func (t *tally) bReads(ctx context.Context, within time.Duration, aOver bool) (granted bool, err error) {
	e, granted, err := t.cell.b.awaitWithin(ctx, within, isGranted)
	if err != nil || !granted {
		return false, err
	}
	if err := t.granted(ctx, e, aOver); err != nil {
		return true, err
	}
	_, err = t.cell.b.await(ctx, isStopping)
	return true, err
}

// finish waits for the end of a turn that goes on.
func (t *tally) finish(ctx context.Context, p *process) error {
	e, err := p.await(ctx, isOver)
	if err != nil {
		return err
	}
	t.over(e)
	_, err = p.await(ctx, isReleased)
	return err
}
