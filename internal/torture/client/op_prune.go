package main

import (
	"context"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// prune deletes the row of a lease that nobody holds, as a clean-up job does. The fence keeps the last token.
var prune = op{"prune", 3, func(ctx context.Context, c *client, _ plan.Dice, name string) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl)
	defer cancel()
	tag, err := c.pool.Exec(ctx, c.inSchema(`DELETE FROM {schema}.pglock_leases
		WHERE name = $1 AND (expires_at IS NULL OR expires_at <= clock_timestamp())`), name)
	if err == nil && tag.RowsAffected() > 0 {
		c.count("pruned")
	}
}}
