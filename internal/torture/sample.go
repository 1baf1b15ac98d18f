package torture

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
)

// sampleClock compares the machine's clock with the database's until ctx ends, over a connection without faults of the
// network. A frozen or restarting server gives wide samples or none, which do no harm.
func (r *run) sampleClock(ctx context.Context) {
	for ctx.Err() == nil {
		_ = direct(ctx, r.options.DSN, func(conn *pgx.Conn) error { // Again, until the end.
			for {
				from := clock.Now()
				var at int64
				err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&at)
				if err != nil {
					return err
				}
				r.book.Note(from, history.Event{Kind: history.KindClock, At: at})
				if !sleep(ctx, 100*time.Millisecond) {
					return ctx.Err()
				}
			}
		})
		sleep(ctx, 50*time.Millisecond)
	}
}
