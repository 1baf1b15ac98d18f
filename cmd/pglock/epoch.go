package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/pglock"
)

func epoch() group {
	return group{
		name:    "epoch",
		summary: "Lifts all tokens after what nothing can detect.",
		members: []member{
			epochRaise(),
		},
		notes: exitNotes,
	}
}

func epochRaise() command {
	return command{
		name:    "raise",
		summary: "Revokes every lease and lifts every later token above all in use.",
		notes: `For two clones of one backup that were both written to, or after a failover that lost the last grants on a server
that does not tell its timeline. Run it on the database that goes on. All other failovers, restores and
cut-overs need nothing. Every holder is told that its lease was revoked, and is refused by its fence. Say -yes.
Prints what was done.
`,
		setup: func(flags *flag.FlagSet) action {
			database := databaseFlags(flags)
			yes := flags.Bool("yes", false, "revoke every lease")
			return func(ctx context.Context, env environment) error {
				if !*yes {
					return &usageError{reason: "revokes every lease of the schema; add -yes if that is meant"}
				}
				ctx, cancel, err := database.limited(ctx)
				if err != nil {
					return err
				}
				defer cancel()
				pool, err := database.pool(ctx, env)
				if err != nil {
					return err
				}
				defer pool.Close()
				client, err := pglock.New(pool, pglock.Config{Schema: database.schema})
				if err != nil {
					return err
				}
				raised, err := client.RaiseEpoch(ctx)
				if err := errors.Join(err, client.Close(ctx)); err != nil {
					return err
				}
				_, err = fmt.Fprintf(env.stdout, "base %d: revoked %d, raised %d\n", raised.Base, raised.Leases, raised.Fences)
				return err
			}
		},
	}
}

// pool connects for a client. The parser's own error is not shown: it may quote parts of a password.
func (d *database) pool(ctx context.Context, env environment) (*pgxpool.Pool, error) {
	url := d.url
	if url == "" {
		url = env.getenv("DATABASE_URL")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("connection string: not understood (not shown, it may have a password)")
	}
	return pgxpool.NewWithConfig(ctx, config)
}
