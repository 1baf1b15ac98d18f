package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// The settings that an impatient administrator makes.
var patience = []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}

// impatient sets short timeouts for the whole server, for a while. Sessions with settings of their own keep them.
var impatient = fault{"timeouts", 1, settings, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	limits := []time.Duration{
		d.Between(2*time.Millisecond, 60*time.Millisecond), d.Between(time.Millisecond, 20*time.Millisecond),
		d.Between(5*time.Millisecond, 100*time.Millisecond),
	}
	pause := d.Between(200*time.Millisecond, 2*r.options.MaxTTL)
	set := func(ctx context.Context, conn *pgx.Conn) error {
		for i, name := range patience {
			if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%dms'", name, limits[i].Milliseconds())); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
		return err
	}
	asking, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := direct(asking, r.options.DSN, func(conn *pgx.Conn) error { return set(asking, conn) })
	sleep(ctx, pause)
	if err := r.patient(context.WithoutCancel(ctx)); err != nil {
		return deed{}, err
	}
	return deed{text: fmt.Sprintf("%v %v for %v: %s", patience, limits, pause, said(err))}, nil
}}

// patient takes the settings back. The server may be away for a moment, because of another fault.
func (r *run) patient(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
			for _, name := range patience {
				if _, err := conn.Exec(ctx, "ALTER SYSTEM RESET "+name); err != nil {
					return err
				}
			}
			_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
			return err
		})
		if err == nil {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
}
