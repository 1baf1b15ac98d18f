package torture

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// The tables that maintenance is done on.
var maintained = []string{"pglock_leases", "job_fences"}

// rewritten rewrites a table, which locks everybody out for a moment.
var rewritten = fault{"vacuum full", 1, session, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	return r.maintain(ctx, "VACUUM FULL {schema}."+plan.One(d, maintained))
}}

// indexed makes an index beside the work and drops it. It waits for every transaction that is open.
var indexed = fault{"index", 1, session, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	table := plan.One(d, maintained)
	what, err := r.maintain(ctx, "CREATE INDEX CONCURRENTLY IF NOT EXISTS torture_index ON {schema}."+table+" (token)")
	if err != nil {
		return what, err
	}
	_, err = r.maintain(context.WithoutCancel(ctx), "DROP INDEX IF EXISTS {schema}.torture_index")
	return what, err
}}

// maintain runs a statement of an administrator. That another fault keeps it from ending is no failure of the run.
func (r *run) maintain(ctx context.Context, sql string) (deed, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, inSchema(sql, r.options.Schema))
		return err
	})
	return deed{text: sql + ": " + said(err)}, nil
}
