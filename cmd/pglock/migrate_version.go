package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/leasehold-go/leasehold/migrations"
)

func migrateVersion() command {
	return command{
		name:    "version",
		summary: "Prints the version of the tables; exit code 3 if \"migrate up\" is needed.",
		notes: `Prints one number; 0: no tables. Reads only, and does not look at the tables themselves.
`,
		setup: func(flags *flag.FlagSet) action {
			database := databaseFlags(flags)
			return func(ctx context.Context, env environment) error {
				ctx, cancel, err := database.limited(ctx, env)
				if err != nil {
					return err
				}
				defer cancel()
				status, err := migrations.Version(ctx, database.db(env), database.options(env))
				if err != nil {
					return err
				}
				fmt.Fprintln(env.stdout, status.Version)
				if status.Current() {
					return nil
				}
				if status.Dirty {
					fmt.Fprintf(env.stderr, "pglock: version %d is dirty: another tool was in the middle of it, or still is\n", status.Version)
				}
				fmt.Fprintf(env.stderr, "pglock: schema %q needs version %d: run \"pglock migrate up -schema %s\"\n", database.schema, migrations.Newest, shellQuote(database.schema))
				return errPending
			}
		},
	}
}

// printVersion is the result of up and down.
func printVersion(ctx context.Context, env environment, database *database) error {
	status, err := migrations.Version(ctx, database.db(env), database.options(env))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, status.Version)
	return err
}
