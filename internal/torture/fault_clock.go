package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// maxStep is how far the server's clock is set at most.
const maxStep = 3 * time.Second

// ahead sets the server's clock forward, and back after a while: leases expire early, and what is granted meanwhile lasts longer.
var ahead = fault{"clock ahead", 1, timepiece, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.setClock(ctx, d, d.Between(50*time.Millisecond, maxStep))
}}

// behind sets it back, and forward again: leases last longer, and what is granted meanwhile expires early.
var behind = fault{"clock behind", 1, timepiece, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.setClock(ctx, d, -d.Between(50*time.Millisecond, maxStep))
}}

func (r *run) setClock(ctx context.Context, d plan.Dice, off time.Duration) (deed, error) {
	pause := d.Between(200*time.Millisecond, 3*r.options.MaxTTL)
	there, err := r.step(0, off)
	if err != nil {
		return deed{}, err
	}
	sleep(ctx, pause)
	back, err := r.step(off, 0)
	return deed{text: fmt.Sprintf("by %v (%s) for %v (%s)", off, there, pause, back)}, err
}

// step sets the server's clock, notes it, and asks the server whether it obeys.
func (r *run) step(from, to time.Duration) (string, error) {
	before := clock.Now()
	if err := r.options.Clock.Set(to); err != nil {
		return "", err
	}
	r.book.Note(before, history.Event{Kind: history.KindStep, Left: (to - from).Microseconds()})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var early, theirs, late time.Time
	err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
		early = time.Now().Round(0)
		err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs)
		late = time.Now().Round(0)
		return err
	})
	if err != nil {
		return "not asked", nil // Another fault is going on.
	}
	const sway = 10 * time.Millisecond // The machine's clock may be adjusted meanwhile.
	if theirs.Before(early.Add(to-sway)) || theirs.After(late.Add(to+sway)) {
		return "", fmt.Errorf("the server's clock does not obey: it says %v, between %v and %v, and should be off by %v",
			theirs, early, late, to)
	}
	return "obeyed", nil
}
