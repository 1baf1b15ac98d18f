package torture

import (
	"context"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// nurse starts a PgBouncer again that ends by itself, and notes it: a bug of its own is none of ours, and its clients have to live with it.
func (r *run) nurse(ctx context.Context) error {
	for sleep(ctx, 100*time.Millisecond) {
		from := clock.Now()
		said, err := r.options.Pooler.Revive(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if said != "" {
			r.book.Note(from, history.Event{Kind: history.KindFault, Text: "pooler ended by itself: " + said})
		}
	}
	return nil
}

// poolerRestart ends PgBouncer at once, with all connections through it, and starts it again.
var poolerRestart = fault{"pooler restart", 1, pooler, func(ctx context.Context, r *run, _ plan.Dice) (deed, error) {
	return deed{}, r.options.Pooler.Restart(context.WithoutCancel(ctx))
}}
