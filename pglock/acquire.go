package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/leasehold-go/leasehold/fencing"
)

// How often a busy name is asked again, and for how long TryAcquire does so: what is in the way is another statement, for
// milliseconds, or a fenced transaction, for as long as it takes.
const (
	busyPause    = 2 * time.Millisecond
	busyMaxPause = 50 * time.Millisecond
	busyPatience = 250 * time.Millisecond
)

// TryAcquire asks once and returns a lease, or why there is none.
//
// If somebody else has the name, the error matches [ErrNotAcquired] and is a [*HeldError]; nothing was written. An expired lease
// is taken over by the first call, whoever held it. Attempts at the same moment are told apart within milliseconds; if that
// takes longer than a quarter of a second, the HeldError is Busy.
//
// Any other error means that the database could not be asked, or not be understood, within the request timeout; the error of
// ctx and the *pgconn.PgError stay reachable. The grant may exist then: it is released in the background, or
// expires by itself, and is never renewed. An error that matches [ErrNotMigrated] names the command that helps.
//
// ctx bounds the call alone, not the life of the lease.
func (c *Client) TryAcquire(ctx context.Context, name string) (*Lease, error) {
	a, err := c.newAttempt(name)
	if err != nil {
		return nil, err
	}
	defer a.end()
	asking, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	var busySince time.Time // Not since the start: connecting may have taken long.
	var last error          // the last answer that was not just the end of the time
	for tries := 1; ; tries++ {
		lease, err := a.ask(asking)
		if lease != nil {
			return lease, nil
		}
		again := transient(err)
		if errors.Is(err, errBusy) {
			if busySince.IsZero() {
				busySince = time.Now()
			}
			again = time.Since(busySince) < busyPatience
		}
		if again && asking.Err() == nil && sleep(asking, backOff(tries)) {
			last = err
			continue
		}
		if last != nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w; before that: %w", err, last)
		}
		return nil, a.fail(ctx, err)
	}
}

// Acquire waits until it has the lease or ctx ends. It asks again when the holder's time is up, and at least every poll interval;
// nothing is held or kept open in between.
//
// When ctx ends while somebody else has the name, the error matches both [ErrNotAcquired] and the error of ctx. While the database
// cannot be asked it goes on trying; if ctx ends then, the error matches that of ctx and wraps the last one
// seen, but not ErrNotAcquired. Errors that asking again cannot cure return at once, as from [Client.TryAcquire].
func (c *Client) Acquire(ctx context.Context, name string) (*Lease, error) {
	a, err := c.newAttempt(name)
	if err != nil {
		return nil, err
	}
	defer a.end()
	w := newWait(c, name)
	for {
		lease, err := a.askInTurn(ctx)
		if lease != nil {
			return lease, nil
		}
		pause, final := w.next(ctx, err)
		if final != nil {
			return nil, a.fail(ctx, w.end(ctx, final))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, a.fail(ctx, w.end(ctx, ctx.Err()))
		case <-c.closing.Done():
			timer.Stop()
			return nil, a.fail(ctx, ErrClosed)
		}
	}
}

// An attempt is one wish to acquire, with the random id that makes asking twice harmless: a retry after an unknown
// outcome finds its own grant.
type attempt struct {
	client *Client
	name   string
	holder string
	// open is set when an answer is missing: the grant may exist, or come to be when a statement that is still on its way
	// arrives.
	open bool
}

func (c *Client) newAttempt(name string) (*attempt, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	c.attempts.Add(1)
	return &attempt{client: c, name: name, holder: newHolder()}, nil
}

// end is called once, when the attempt is over; Close waits for it.
func (a *attempt) end() { a.client.attempts.Done() }

// newHolder is a random UUID.
func newHolder() string {
	var id pgtype.UUID
	_, _ = rand.Read(id.Bytes[:]) // Never fails (crypto/rand).
	id.Bytes[6], id.Bytes[8] = id.Bytes[6]&0x0f|0x40, id.Bytes[8]&0x3f|0x80
	id.Valid = true
	return id.String()
}

// A renewedRow is what renew.sql returns.
type renewedRow struct{ Name, Holder string }

// A grantRow is what acquire.sql returns.
type grantRow struct {
	Outcome         string
	Token           int64
	Remaining       int64 // microseconds
	Label           string
	TookOver        bool
	RemainingBefore int64 // microseconds
	Isolation       string
}

// askInTurn is one ask of a waiter, bounded by the request timeout. Waiters take turns, so that however many there are, half of the
// pool is for others.
func (a *attempt) askInTurn(ctx context.Context) (*Lease, error) {
	c := a.client
	select {
	case c.asks <- struct{}{}:
		defer func() { <-c.asks }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closing.Done():
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	return a.ask(ctx)
}

// ask asks the database once. It returns a lease, a *HeldError, errBusy, or why it could not be asked.
func (a *attempt) ask(ctx context.Context) (*Lease, error) {
	c := a.client
	s, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	var row grantRow
	var sent time.Time
	err = c.withPool(ctx, func(conn *pgx.Conn) (err error) {
		row, sent, err = a.grant(ctx, conn, s)
		return err
	})
	if err != nil {
		a.open = a.open || !sent.IsZero() && undecided(err)
		return nil, explain(c.config.Schema, err)
	}
	if row.Isolation != readCommitted {
		c.pin(row.Isolation)
	}
	left := microseconds(row.Remaining)
	switch row.Outcome {
	case "granted":
		return a.begin(ctx, row, sent, left)
	case "held":
		return nil, &HeldError{Name: a.name, Holder: row.Label, Token: fencing.Token(row.Token), TimeLeft: left}
	case "outrun":
		a.abandon()
	}
	return nil, errBusy
}

// grant runs acquire.sql, and what has to follow it before its answer can be used. sent is when the statement was sent that
// set the expiry.
func (a *attempt) grant(ctx context.Context, conn *pgx.Conn, s *statements) (row grantRow, sent time.Time, err error) {
	c := a.client
	for entered := 0; ; entered++ {
		sent = time.Now()
		rows, err := query(ctx, c, conn, pgx.RowToStructByPos[grantRow], s.acquire, a.name, a.holder, c.config.TTL.Microseconds(),
			gateKey(c.config.Schema, a.name), c.config.Label, c.metadata)
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("acquire.sql returned %d rows instead of one", len(rows))
		}
		if err != nil {
			return row, sent, err
		}
		row = rows[0]
		switch {
		case row.Outcome == "found":
			// An earlier question was granted, but its commit may not have reached a synchronous standby: a cancelled wait commits.
			// A renewal waits anew, for both.
			sent = time.Now()
			renewed, err := query(ctx, c, conn, pgx.RowToStructByPos[renewedRow], s.renew,
				[]string{a.name}, []string{a.holder}, []int64{row.Token}, c.config.TTL.Microseconds())
			if err == nil && len(renewed) == 0 {
				err = errBusy
			}
			row.Outcome, row.Remaining = "granted", c.config.TTL.Microseconds()
			return row, sent, err
		case row.Outcome == "superseded":
			return row, time.Time{}, errSuperseded // Nothing was written.
		case row.Outcome != "unentered":
			return row, sent, nil
		case entered == 2:
			return row, sent, fmt.Errorf("token %d of the lease or the fence is beyond what can be granted: it was written by hand; "+
				"lower it in pglock_leases and job_fences of schema %q", row.Token, c.config.Schema)
		}
		// The first grant on this cluster.
		if _, err := query(ctx, c, conn, pgx.RowTo[int64], s.enter); err != nil {
			return row, sent, err
		}
	}
}

// microseconds makes a duration of what the database says. An expiry set by hand may be far beyond what one can hold.
func microseconds(n int64) time.Duration {
	return time.Duration(max(-1e15, min(n, 1e15))) * time.Microsecond
}

// begin makes a lease of a grant.
//
// Invariant: trust counts from before the question was sent, over what the database says is left, which after a retry is less
// than the TTL. A grant that took too long to arrive is given back, never handed out.
func (a *attempt) begin(ctx context.Context, row grantRow, sent time.Time, left time.Duration) (*Lease, error) {
	c := a.client
	until := sent.Add(min(left, c.config.TTL) - c.config.Margin)
	if !time.Now().Before(until) || c.isClosed() || ctx.Err() != nil {
		a.abandon()
		return nil, errors.Join(errStaleGrant, ctx.Err())
	}
	l := &Lease{
		name: a.name, token: fencing.Token(row.Token), holder: a.holder, schema: c.config.Schema, doubtful: a.open,
		free: c.free, limit: c.config.RequestTimeout, ended: c.ended,
	}
	a.open = false
	l.begin(until)
	c.renewer.add(l)
	if l.Err() != nil {
		c.renewer.remove(l) // It ended before it was there.
	}
	if c.isClosed() && l.finish(ErrReleased) { // Close did not see it.
		a.abandon()
		return nil, ErrClosed
	}
	kind, level, text := EventAcquired, slog.LevelDebug, "pglock: acquired"
	attrs := []slog.Attr{slog.String("name", a.name), slog.Int64("token", row.Token)}
	if row.TookOver {
		kind, level, text = EventTakenOver, slog.LevelInfo, "pglock: took over an expired lease"
		attrs = append(attrs, slog.String("from", row.Label),
			slog.Duration("expired_for", -microseconds(row.RemainingBefore)))
	}
	c.config.Logger.LogAttrs(ctx, level, text, attrs...)
	c.config.OnEvent(Event{Kind: kind, Name: a.name, Token: l.token, TimeLeft: l.TimeLeft(), Took: time.Since(sent)})
	return l, nil
}

// abandon gives a grant back that is not or may not be ours, in the background, and lets the attempt go on under a new id.
func (a *attempt) abandon() {
	a.client.reaper.add(a.name, a.holder, false)
	a.holder, a.open = newHolder(), false
}

// fail ends an attempt without a lease and words the error.
func (a *attempt) fail(ctx context.Context, err error) error {
	c := a.client
	if a.open {
		a.abandon()
	}
	if errors.Is(err, errBusy) {
		err = &HeldError{Name: a.name, Busy: true}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	event := Event{Kind: EventNotAcquired, Name: a.name, Err: err}
	var held *HeldError
	if errors.As(err, &held) {
		event.TimeLeft = held.TimeLeft
		if held.Busy {
			held.Blockers = c.blockers(ctx, a.name)
		}
	}
	c.config.OnEvent(event)
	if _, alone := err.(*HeldError); alone { //nolint:errorlint // Not whether it is in the chain: whether it is all there is.
		return err // It says all by itself.
	}
	return fmt.Errorf("pglock: acquire %q: %w", a.name, err)
}

// blockers asks who is in the gate. It is for an error's text: nothing depends on the answer, and it gets little time, but
// some even if ctx has ended.
func (c *Client) blockers(ctx context.Context, name string) []int32 {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.config.RequestTimeout, 250*time.Millisecond))
	defer cancel()
	s := c.quick.Load()
	if s == nil {
		return nil
	}
	var pids []int32
	_ = c.withPool(ctx, func(conn *pgx.Conn) error {
		var err error
		pids, err = query(ctx, c, conn, pgx.RowTo[int32], s.blocker, gateKey(c.config.Schema, name))
		return err
	})
	return pids
}

// backOff is the pause before the given try of a name that is busy or a database that cannot be asked.
func backOff(tries int) time.Duration {
	return shorten(min(busyPause<<min(tries, 10), busyMaxPause), 0.5)
}
