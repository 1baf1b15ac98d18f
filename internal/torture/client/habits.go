package main

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// habits are what differs between databases and programs that the library must live with.
func habits(config *pgx.ConnConfig, d plan.Dice, ttl time.Duration, pooled bool) {
	mode := plan.One(d, []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	})
	modePooled := plan.One(d, []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	})
	isolation := plan.One(d, []string{"read committed", "read committed", "read committed", "repeatable read", "serializable"})
	impatient := d.IntN(3) == 0
	hasty := d.IntN(4) == 0
	if pooled { // Statements that are prepared in a session, and settings of it, do not get through a pooler in transaction mode.
		config.DefaultQueryExecMode = modePooled
		return
	}
	config.DefaultQueryExecMode = mode
	config.RuntimeParams["default_transaction_isolation"] = isolation
	// A client that is cut off in mid-transaction must not keep the fence for ever: what docs ask of users, too.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "1000"
	if hasty { // What is written under the fence waits for the disk all the same: see insert.
		config.RuntimeParams["synchronous_commit"] = "off"
	}
	if impatient {
		config.RuntimeParams["statement_timeout"] = fmt.Sprint(ttl.Milliseconds() / 3)
		config.RuntimeParams["lock_timeout"] = fmt.Sprint(ttl.Milliseconds() / 6)
	}
}
