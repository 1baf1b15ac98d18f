package torture

import "context"

// prune deletes the row of a lease that nobody holds, as a clean-up job does. The fence keeps the last token.
var prune = op{"prune", 3, func(ctx context.Context, c *client, _ dice, name string) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl)
	defer cancel()
	tag, err := c.pool.Exec(ctx, inSchema(`DELETE FROM {schema}.pglock_leases
		WHERE name = $1 AND (expires_at IS NULL OR expires_at <= clock_timestamp())`, c.options.Schema), name)
	if err == nil && tag.RowsAffected() > 0 {
		c.log.count("pruned")
	}
}}
