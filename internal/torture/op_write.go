package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/pglock"
)

// A check passes a lease's fence in a transaction.
type check func(context.Context, pgx.Tx, *pglock.Lease) error

// advance writes under the exclusive form.
var advance = op{"advance", 20, func(ctx context.Context, c *client, d dice, name string) {
	think := thinking(d)
	if l, found := c.held(d, name); found {
		c.write(ctx, l, c.options.Advance, think)
	}
}}

// share writes under the shared form, in several transactions side by side.
var share = op{"share", 12, func(ctx context.Context, c *client, d dice, name string) {
	pauses := []time.Duration{thinking(d), thinking(d), thinking(d)}[:1+d.IntN(3)]
	l, found := c.held(d, name)
	if !found {
		return
	}
	var group sync.WaitGroup
	for _, think := range pauses {
		group.Go(func() { c.write(ctx, l, c.options.Share, think) })
	}
	group.Wait()
}}

// stale writes under a term that is over for the client. If somebody else was granted the name since, it must be refused;
// if nobody was, the fence has no reason to.
var stale = op{"stale", 14, func(ctx context.Context, c *client, d dice, name string) {
	form := one(d, []check{c.options.Advance, c.options.Share})
	think := thinking(d)
	if l, found := c.oneFormer(d, name); found {
		c.write(ctx, l, form, think)
	}
}}

// thinking is what a transaction does between its check and its commit: mostly nothing, at times long.
func thinking(d dice) time.Duration {
	if d.IntN(3) > 0 {
		d.Int64()
		return 0
	}
	return d.between(time.Millisecond, 150*time.Millisecond)
}

// write is one fenced transaction.
func (c *client) write(ctx context.Context, l term, passes check, think time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	e := l.event("", "")
	e.Client, e.Write = c.label, fmt.Sprintf("%s.%d", c.label, c.writes.Add(1))
	from := c.log.now()
	committing := false
	err := func() error {
		tx, err := c.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // A no-op after Commit.
		if err := passes(ctx, tx, l.Lease); err != nil {
			return err
		}
		if think > 0 && !sleep(ctx, think) {
			return ctx.Err()
		}
		_, err = tx.Exec(ctx, inSchema("INSERT INTO {schema}.torture_writes (id, name, token) VALUES ($1, $2, $3)", c.options.Schema),
			e.Write, e.Name, e.Token)
		if err != nil {
			return err
		}
		committing = true
		return tx.Commit(ctx)
	}()
	c.log.strange("write", err)
	switch {
	case err == nil:
		e.Kind = history.KindWrote
	case errors.Is(err, fencing.ErrStale):
		e.Kind = history.KindRefused
	case committing:
		e.Kind, e.Text = history.KindUnknown, err.Error()
	default:
		c.log.count("writes broken off")
		return
	}
	c.log.count("writes " + string(e.Kind))
	c.log.note(from, e)
}
