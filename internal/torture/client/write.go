package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/pglock"
)

// A write is one fenced transaction, with an id of its own.
type write struct {
	client *client
	event  history.Event
	from   int64
}

func (c *client) newWrite(l *pglock.Lease) *write {
	w := &write{client: c, event: event(l, "", ""), from: clock.Now()}
	w.event.Write = fmt.Sprintf("%s.%d", c.setup.Label, c.writes.Add(1))
	return w
}

// insert is the work of the transaction. Its commit waits for the disk, whatever the session does, because it is confirmed.
func (w *write) insert(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, w.client.inSchema("INSERT INTO {schema}.torture_writes (id, name, token) VALUES ($1, $2, $3)"),
		w.event.Write, w.event.Name, w.event.Token)
	return err
}

// note notes what is known of it. A refusal without a text is the fence's.
func (w *write) note(kind history.Kind, text string) {
	w.event.Kind, w.event.Text = kind, text
	w.client.book.Note(w.from, w.event)
}

// told notes what Run returned. worked: it came as far as the work.
func (w *write) told(err error, worked bool) {
	var unknown *fencing.UnknownError
	switch {
	case err == nil:
		w.note(history.KindWrote, "")
	case errors.As(err, &unknown):
		w.note(history.KindUnknown, err.Error())
	case errors.Is(err, fencing.ErrStale):
		w.note(history.KindRefused, "")
	case worked:
		w.note(history.KindRefused, err.Error())
	default:
		w.client.count("writes broken off")
	}
	w.client.strange("run", err)
}

// write is one fenced transaction by hand.
func (c *client) write(ctx context.Context, l *pglock.Lease, passes check, think time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	w := c.newWrite(l)
	committing := false
	err := func() error {
		tx, err := c.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { // A no-op after Commit. Bounded: the network may swallow the answer.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = tx.Rollback(ctx)
		}()
		if err := passes(ctx, tx, l); err != nil {
			return err
		}
		if think > 0 && !sleep(ctx, think) {
			return ctx.Err()
		}
		if err := w.insert(ctx, tx); err != nil {
			return err
		}
		committing = true
		return tx.Commit(ctx)
	}()
	c.strange("write", err)
	switch {
	case err == nil:
		w.note(history.KindWrote, "")
	case errors.Is(err, fencing.ErrStale):
		w.note(history.KindRefused, "")
	case committing:
		w.note(history.KindUnknown, err.Error())
	default:
		c.count("writes broken off")
	}
}

func (c *client) inSchema(text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{c.setup.Schema}.Sanitize())
}
