package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

func epoch() group {
	return group{
		name:    "epoch",
		summary: "Raises all tokens after a clone or a restore that PostgreSQL does not show.",
		members: []member{
			epochRaise(),
		},
		notes: exitNotes,
	}
}

func epochRaise() command {
	return command{
		name:    "raise",
		summary: "Revokes every lease and raises every later token above all in use.",
		notes: `For what has the same identifier and timeline: two clones of one data directory that were both written to; a standby
promoted without having followed the last primary, with no WAL archive in common; an older state put back into
the same cluster. And after a failover that lost grants on a server that does not tell its timeline. Run it on the
database that goes on, and again if a failover loses it. Other failovers, restores and cut-overs need nothing.
Every holder is told that its lease was revoked, and is refused by its fence. Say -yes. Prints what was done.
`,
		setup: func(flags *flag.FlagSet) action {
			database := databaseFlags(flags)
			yes := flags.Bool("yes", false, "revoke every lease")
			return func(ctx context.Context, env environment) error {
				if !*yes {
					return &usageError{reason: "revokes every lease of the schema; add -yes if that is meant"}
				}
				ctx, cancel, err := database.limited(ctx, env)
				if err != nil {
					return err
				}
				defer cancel()
				// The first to connect is package migrations, which knows what must not be shown of a connection string.
				status, err := migrations.Version(ctx, database.db(env), database.options(env))
				if err != nil {
					return err
				}
				if status.Version == 0 {
					return fmt.Errorf("schema %q has no tables: run \"pglock migrate up -schema %s\"", database.schema, shellQuote(database.schema))
				}
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
				_, err = fmt.Fprintf(env.stdout, "leases revoked: %d, fences raised: %d; tokens are now above %d\n", raised.Leases, raised.Fences, raised.Base<<32)
				return err
			}
		},
	}
}

// pool connects for a client. The parser's own error is not shown: it may quote parts of a password.
func (d *database) pool(ctx context.Context, env environment) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.connString(env))
	if err != nil {
		return nil, errors.New("connection string: not understood (not shown, it may have a password)")
	}
	return pgxpool.NewWithConfig(ctx, config)
}
