package pglock

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Raise is what [Client.RaiseEpoch] did.
type Raise struct {
	Base   int64 // of the epoch of this cluster: every later token is above Base<<32
	Leases int64 // how many were freed
	Fences int64 // how many were raised
}

// raiseTries is how often a raise is tried that a deadlock ends, with a transaction that passes several fences in an order of
// its own.
const raiseTries = 5

// RaiseEpoch lifts every later token above all that are in use, frees every lease and raises every fence, in one
// transaction: whoever holds a lease learns that it was revoked, and is refused by its fence from now on.
//
// It is for an operator, after what no statement can detect: two clones of one data directory that were both written to; a
// standby promoted without having followed the last primary, with no WAL archive in common; an older state put back into the
// same cluster; a failover that lost grants on a server that does not tell its timeline. Run it on the database that goes on.
// Other failovers, restores and cut-overs need nothing. A raise that a failover loses is to be repeated.
//
// It waits for open fenced transactions as long as ctx allows. After an error other than one of the server it may have been
// done; doing it twice is harmless.
func (c *Client) RaiseEpoch(ctx context.Context) (Raise, error) {
	s, err := c.prepare(ctx)
	if err == nil {
		var rows []Raise
		for tries := 1; ; tries++ {
			err = c.withPool(ctx, func(conn *pgx.Conn) error {
				rows, err = query(ctx, c, conn, pgx.RowToStructByPos[Raise], s.raise)
				return explain(c.config.Schema, err)
			})
			var pg *pgconn.PgError
			if tries == raiseTries || !errors.As(err, &pg) || pg.Code != "40P01" {
				break
			}
		}
		if err == nil {
			return rows[0], nil
		}
	}
	return Raise{}, fmt.Errorf("pglock: raise the epoch: %w", err)
}
