package pglock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
)

// free ends a term in the database. It is called once for a lease, with a context that does not end by itself.
func (c *Client) free(ctx context.Context, l *Lease) error {
	l.finish(ErrReleased)
	lost := l.Err()
	if errors.Is(lost, ErrReleased) {
		lost = nil
	}
	var loss *LostError
	if errors.As(lost, &loss) && loss.Reason != LostUnreachable && loss.Reason != LostExpired {
		return lost // Somebody else's row, or none.
	}
	err := c.freeNow(ctx, l)
	switch {
	case lost != nil:
		return lost
	case errors.Is(err, ErrLost):
		return err
	case err != nil:
		c.freeLater(l.name, l.holder, l.token)
		return fmt.Errorf("pglock: release %q: not known, goes on in the background: %w", l.name, explain(c.config.Schema, err))
	}
	c.config.Logger.Debug("pglock: released", slog.String("name", l.name), slog.Int64("token", int64(l.token)))
	return nil
}

// freeNow asks until there is an answer or the request timeout is over.
func (c *Client) freeNow(ctx context.Context, l *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	started := time.Now()
	for tries := 1; ; tries++ {
		var freed int
		var row *leaseRow
		err := c.withPool(ctx, func(conn *pgx.Conn) (err error) {
			freed, row, err = c.freeRow(ctx, conn, l.name, l.holder, l.token)
			return err
		})
		switch {
		case err == nil && freed == 1:
			c.config.OnEvent(Event{Kind: EventReleased, Name: l.name, Token: l.token, Took: time.Since(started)})
			return nil
		case err == nil && row != nil && row.Holder == l.holder && row.Remaining == nil && tries > 1:
			return nil // An earlier try did it, and its answer was lost.
		case err == nil:
			v := l.settle(row)
			if v.lost == nil {
				v.lost = &LostError{Name: l.name, Token: l.token, Reason: LostExpired}
			}
			return v.lost
		case !transient(err) || !sleep(ctx, backOff(tries)):
			return err
		}
	}
}

// freeRow frees the row if it is still the holder's, and else reads what it says. A lease that had run out by then, with
// nobody taking over, counts as not freed: its term was over.
func (c *Client) freeRow(ctx context.Context, conn *pgx.Conn, name, holder string, token fencing.Token) (int, *leaseRow, error) {
	s, err := c.prepare(ctx)
	if err != nil {
		return 0, nil, err
	}
	expired, err := query(ctx, c, conn, pgx.RowTo[bool], s.release, name, holder, int64(token))
	if err != nil {
		return 0, nil, err
	}
	if len(expired) == 1 {
		zero := int64(0)
		if expired[0] {
			return 0, &leaseRow{Name: name, Holder: holder, Token: int64(token), Remaining: &zero}, nil
		}
		return 1, nil, nil
	}
	rows, err := query(ctx, c, conn, pgx.RowToStructByPos[leaseRow], s.inspect, []string{name})
	if err != nil || len(rows) == 0 {
		return 0, nil, err
	}
	return 0, &rows[0], nil
}

// freeLater gives back a grant that may exist, in the background and on connections of its own, so that a pool in full use
// does not matter. token is 0 if it is not known.
//
// The statement of an attempt may reach the server after the first of these, so it goes on, ever more slowly, until a row
// was freed or the TTL has passed: from then on the row has expired by itself.
func (c *Client) freeLater(name, holder string, token fencing.Token) {
	started := c.background(func() {
		ctx, cancel := context.WithTimeout(c.life, c.config.TTL+c.config.RequestTimeout)
		defer cancel()
		for pause := c.config.RequestTimeout / 4; ; pause *= 2 {
			if freed, err := c.freeOnce(ctx, name, holder, token); err == nil && freed {
				return
			}
			if !sleep(ctx, shorten(pause, 0.2)) {
				break
			}
		}
		if c.life.Err() != nil { // The client closes: once more, at once.
			_, _ = c.freeOnce(context.Background(), name, holder, token) // Else it expires by itself.
		}
	})
	if !started { // The client is closed: this once, and in the caller's time.
		_, _ = c.freeOnce(context.Background(), name, holder, token) // Else it expires by itself.
	}
}

func (c *Client) freeOnce(ctx context.Context, name, holder string, token fencing.Token) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = closeConn(conn) }() // It has served; an error changes nothing.
	freed, row, err := c.freeRow(ctx, conn, name, holder, token)
	// Freed, or known not to be ours any more. A free row of ours with a known token was freed by an earlier try.
	return freed == 1 || token != 0 || row != nil && row.Holder == holder, err
}

// ended is told by a lease, once, that its term is over on our side.
func (c *Client) ended(l *Lease, cause error) {
	c.renewer.remove(l)
	if errors.Is(cause, ErrReleased) {
		return
	}
	c.config.Logger.Warn("pglock: lease lost", slog.String("name", l.name), slog.Int64("token", int64(l.token)), slog.Any("error", cause))
	c.config.OnEvent(Event{Kind: EventLost, Name: l.name, Token: l.token, Err: cause})
}

// noticeRenewals is told by the renewer when renewals go on failing, and when they succeed again.
func (c *Client) noticeRenewals(leases []*Lease, err error) {
	if err == nil {
		c.config.Logger.Info("pglock: renewals succeed again", slog.Int("leases", len(leases)))
		return
	}
	c.config.Logger.Warn("pglock: renewals fail; leases live on until they are no longer trusted",
		slog.Int("leases", len(leases)), slog.Any("error", err))
	for _, l := range leases {
		c.config.OnEvent(Event{Kind: EventRenewalLate, Name: l.name, Token: l.token, TimeLeft: l.TimeLeft(), Err: err})
	}
}
