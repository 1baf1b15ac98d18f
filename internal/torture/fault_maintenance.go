package torture

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// rewritten rewrites the table of the leases, which locks everybody out for a moment.
var rewritten = fault{"vacuum full", 1, session, func(ctx context.Context, r *run, _ dice) (string, error) {
	return r.maintain(ctx, "VACUUM FULL {schema}.pglock_leases")
}}

// indexed makes an index beside the work and drops it. It waits for every transaction that is open.
var indexed = fault{"index", 1, session, func(ctx context.Context, r *run, _ dice) (string, error) {
	what, err := r.maintain(ctx, "CREATE INDEX CONCURRENTLY IF NOT EXISTS torture_index ON {schema}.pglock_leases (label)")
	if err != nil {
		return what, err
	}
	_, err = r.maintain(context.WithoutCancel(ctx), "DROP INDEX IF EXISTS {schema}.torture_index")
	return what, err
}}

// maintain runs a statement of an administrator. That another fault keeps it from ending is no failure of the run.
func (r *run) maintain(ctx context.Context, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, inSchema(sql, r.options.Schema))
		return err
	})
	return said(err), nil
}
