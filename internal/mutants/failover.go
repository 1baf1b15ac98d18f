package mutants

// failover are faults that only another server brings to light: the torture has one.
var failover = []Mutant{
	{
		Name:  "plain counter",
		Fault: "a token is the last one and one: a failover that lost grants gives them again",
		Edits: []Edit{{acquireSQL, "greatest(last.token, epoch.epoch << 32) + 1", "last.token + 1"}},
		Suite: &Suite{"internal/failover", "TestTokens_RiseThroughFailoversInARow", "is not greater than"},
	},
	{
		Name:  "timeline alone",
		Fault: "the epoch is the timeline, which starts again in a cluster that was restored or upgraded",
		Edits: []Edit{{acquireSQL, "coalesce(e.base, 0) + c.timeline - 1 AS epoch", "c.timeline - 1 AS epoch"}},
		Suite: &Suite{"internal/failover", "TestTokens_RiseAfterAnUpgradeAndThenAFailover", "beyond what can be granted"},
	},
	{
		Name:  "timeline of the last checkpoint",
		Fault: "the timeline is that of the last checkpoint, which lags after a promotion",
		Edits: []Edit{{acquireSQL, "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint AS timeline",
			"(SELECT timeline_id FROM pg_control_checkpoint())::bigint AS timeline"}},
		Suite: &Suite{"internal/failover", "TestTokens_RiseThroughFailoversInARow", "is not greater than"},
	},
}
