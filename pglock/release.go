package pglock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// free ends a term in the database, within ctx. It is called once for a lease.
func (c *Client) free(ctx context.Context, l *Lease) error {
	l.finish(ErrReleased)
	lost := l.Err()
	if errors.Is(lost, ErrReleased) {
		lost = nil
	}
	if l.doubtful {
		// A question of the same attempt got no answer. Should it arrive after this, it finds a free name.
		defer c.reaper.add(l.name, l.holder, false)
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
		c.reaper.add(l.name, l.holder, true)
		return fmt.Errorf("pglock: release %q: not known, goes on in the background: %w", l.name, explain(c.config.Schema, err))
	}
	c.config.Logger.Debug("pglock: released", slog.String("name", l.name), slog.Int64("token", int64(l.token)))
	c.config.OnEvent(Event{Kind: EventReleased, Name: l.name, Token: l.token})
	return nil
}

// freeNow asks until there is an answer or ctx ends.
func (c *Client) freeNow(ctx context.Context, l *Lease) error {
	for tries := 1; ; tries++ {
		var freed bool
		var row *leaseRow
		err := c.withPool(ctx, func(conn *pgx.Conn) (err error) {
			freed, row, err = c.freeRow(ctx, conn, l)
			return err
		})
		switch {
		case err == nil && freed:
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
func (c *Client) freeRow(ctx context.Context, conn *pgx.Conn, l *Lease) (freed bool, row *leaseRow, err error) {
	s, err := c.prepare(ctx)
	if err != nil {
		return false, nil, err
	}
	expired, err := query(ctx, c, conn, pgx.RowTo[bool], s.release, l.name, l.holder, int64(l.token))
	switch {
	case err != nil:
		return false, nil, err
	case len(expired) == 1 && expired[0]:
		return false, &leaseRow{Name: l.name, Holder: l.holder, Token: int64(l.token), Remaining: new(int64)}, nil
	case len(expired) == 1:
		return true, nil, nil
	}
	rows, err := query(ctx, c, conn, pgx.RowToStructByPos[leaseRow], s.inspect, []string{l.name})
	if err != nil || len(rows) == 0 {
		return false, nil, err
	}
	return false, &rows[0], nil
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
