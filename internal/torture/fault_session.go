package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// terminated ends one session of a client, as administrators do.
var terminated = fault{"terminate", 4, session, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	c, n := plan.One(d, r.clients), d.IntN(4)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ended := 0
	err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM (
			SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1 AND datname = current_database()
			ORDER BY backend_start DESC OFFSET $2 LIMIT 1
		) AS one`, fmt.Sprintf("c%d.%%", c.number), n).Scan(&ended)
	})
	if err != nil {
		return deed{text: "the server could not be asked"}, nil // Another fault is going on.
	}
	return deed{text: fmt.Sprintf("%d session of client %d", ended, c.number)}, nil
}}
