package pglock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Raise is what [Client.RaiseEpoch] did.
type Raise struct {
	Base   int64 // of the epoch of this cluster: every later token is above Base<<32
	Leases int64 // how many were freed
	Fences int64 // how many were raised
}

// RaiseEpoch lifts every later token above all that are in use, frees every lease and raises every fence, in one
// transaction: whoever holds a lease learns that it was revoked, and is refused by its fence from now on.
//
// It is for an operator, after what no statement can detect: two clones of one backup that were both written to, or a
// failover that lost grants on a server that does not tell its timeline. Run it on the database that goes on. All other
// failovers, restores and cut-overs need nothing.
//
// It waits for open fenced transactions as long as ctx allows. After an error other than one of the server it may have been
// done; doing it twice is harmless.
func (c *Client) RaiseEpoch(ctx context.Context) (Raise, error) {
	s, err := c.prepare(ctx)
	if err == nil {
		var rows []Raise
		err = c.withPool(ctx, func(conn *pgx.Conn) error {
			rows, err = query(ctx, c, conn, pgx.RowToStructByPos[Raise], s.raise)
			return err
		})
		if err == nil {
			return rows[0], nil
		}
	}
	return Raise{}, fmt.Errorf("pglock: raise the epoch: %w", explain(c.config.Schema, err))
}
