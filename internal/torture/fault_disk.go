package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// diskFull fills the disk of the WAL. The server cannot commit, gives up (PANIC) and recovers, or ends for good and is
// started again when there is room.
var diskFull = fault{"disk full", 1, disk, func(ctx context.Context, r *run, d plan.Dice) (deed, error) {
	pause := d.Between(300*time.Millisecond, 3*time.Second)
	r.whole.Lock()
	defer r.whole.Unlock()
	from := clock.Now()
	for end := time.Now().Add(pause); time.Now().Before(end); { // A checkpoint may give some room.
		if err := r.options.Disk.Fill(); err != nil {
			return deed{}, err
		}
		if !sleep(ctx, 50*time.Millisecond) {
			break
		}
	}
	if err := r.options.Disk.Free(); err != nil {
		return deed{}, err
	}
	err := r.revive(context.WithoutCancel(ctx))
	r.book.Note(from, history.Event{Kind: history.KindCrash, Text: "disk full"}) // Not for certain: it had room for what it did.
	return deed{text: fmt.Sprint("for ", pause)}, err
}}

// revive waits until the server works, and starts it if it has ended.
func (r *run) revive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := r.options.Server.Start()
		if err == nil {
			err = direct(ctx, r.options.DSN, func(conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, inSchema("UPDATE {schema}.torture_writes SET id = id WHERE false", r.options.Schema))
				return err
			})
		}
		if err == nil {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
}
