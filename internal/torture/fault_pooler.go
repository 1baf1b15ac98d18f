package torture

import (
	"context"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// poolerRestart ends PgBouncer at once, with all connections through it, and starts it again.
var poolerRestart = fault{"pooler restart", 1, pooler, func(ctx context.Context, r *run, _ plan.Dice) (deed, error) {
	return deed{}, r.options.Pooler.Restart(context.WithoutCancel(ctx))
}}
