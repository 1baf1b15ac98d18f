package main

import (
	"context"
	"flag"

	"github.com/leasehold-go/leasehold/migrations"
)

func migrateDown() command {
	return command{
		name:    "down",
		summary: "Removes the tables, with every token in them.",
		notes: `The fences go with the tables, and tokens start again from 1 after the next "migrate up": nothing then
refuses a holder from before. Stop all writers first, and say -yes. The schema and the empty table
pglock_schema_migrations stay. Prints the version.
`,
		setup: func(flags *flag.FlagSet) action {
			database := databaseFlags(flags)
			to := flags.Int("to", 0, "stop at this `version`; 0: remove everything")
			yes := flags.Bool("yes", false, "drop the tables and their tokens; all writers are stopped")
			return func(ctx context.Context, env environment) error {
				if err := checkVersion(*to); err != nil {
					return err
				}
				if !*yes {
					return &usageError{reason: "drops tables with every token in them; stop all writers, then add -yes"}
				}
				ctx, cancel, err := database.limited(ctx, env)
				if err != nil {
					return err
				}
				defer cancel()
				options := database.options(env)
				options.To = *to
				if err := migrations.Down(ctx, database.db(env), options); err != nil {
					return err
				}
				return printVersion(ctx, env, database)
			}
		},
	}
}
