package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/leasehold-go/leasehold/migrations"
)

func migrateUp() command {
	return command{
		name:    "up",
		summary: "Installs the tables, or brings them to the newest version.",
		notes: `Any number of these may run at once, through a pooler in transaction mode too: each waits until the tables
are there. Each migration is one transaction, so one that is killed leaves nothing half done. A database
that is newer than this command is left as it is. Prints the version.
`,
		setup: func(flags *flag.FlagSet) action {
			database := databaseFlags(flags)
			to := flags.Int("to", 0, "stop at this `version`; 0: the newest")
			return func(ctx context.Context, env environment) error {
				if err := checkVersion(*to); err != nil {
					return err
				}
				ctx, cancel, err := database.limited(ctx, env)
				if err != nil {
					return err
				}
				defer cancel()
				options := database.options(env)
				options.To = *to
				if err := migrations.Up(ctx, database.db(env), options); err != nil {
					return err
				}
				return printVersion(ctx, env, database)
			}
		},
	}
}

func checkVersion(version int) error {
	if version < 0 || version > migrations.Newest {
		return &usageError{reason: fmt.Sprintf("-to %d: versions are 1 to %d", version, migrations.Newest)}
	}
	return nil
}
