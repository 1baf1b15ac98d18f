package torture

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// favour is how much more often what is favoured comes up.
const favour = 6

// Options of a [Run].
type Options struct {
	Seed     uint64
	Duration time.Duration // of operations and faults; the end takes some seconds more

	DSN    string // of a role that may end sessions, for that fault
	Schema string // where the tables are; the run adds its own

	// Server is frozen and restarted. Nil: the server is somebody else's, and those faults are left out.
	Server *pgserver.Server

	// Proxy gives a proxy in front of DSN, and the DSN that leads through it. Each life of a client has one of its own.
	Proxy func(dsn string) (*faultnet.Proxy, string)

	Clients int           // Default: 6.
	Names   []string      // Default: four.
	MinTTL  time.Duration // of a client; drawn. Default: 400 ms.
	MaxTTL  time.Duration // Default: 1 s.

	// Favour names operations and faults that come up more often. Default: none.
	Favour []string

	// Prepare is called for each client before its first operation, and again until it returns nil. Default: nil.
	Prepare func(context.Context, *pglock.Client) error
	// Advance and Share are the checks of fenced writes. Defaults: those of the lease's fence, with nothing else in front, as for a
	// holder that is paused after it has looked whether it still is one.
	Advance, Share func(context.Context, pgx.Tx, *pglock.Lease) error

	// Enough ends the run early when it says so; it is asked about once a second with what has happened so far. Default: nil.
	Enough func(*Report) bool
}

func (o Options) withDefaults() Options {
	if o.Clients == 0 {
		o.Clients = 6
	}
	if len(o.Names) == 0 {
		o.Names = []string{"invoice-job", `na"me`, "Zürich", "files"}
	}
	if o.MinTTL == 0 {
		o.MinTTL = 400 * time.Millisecond
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = time.Second
	}
	if o.Advance == nil {
		o.Advance = func(ctx context.Context, tx pgx.Tx, l *pglock.Lease) error {
			return l.Fence().AdvanceTx(ctx, tx, l.Token())
		}
	}
	if o.Share == nil {
		o.Share = func(ctx context.Context, tx pgx.Tx, l *pglock.Lease) error {
			return l.Fence().ShareTx(ctx, tx, l.Token())
		}
	}
	return o
}

// weigh gives the weight of an operation or a fault.
func (o Options) weigh(name string, weight int) int {
	if slices.Contains(o.Favour, name) {
		return weight * favour
	}
	return weight
}
