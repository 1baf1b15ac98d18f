package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/leasehold-go/leasehold/migrations"
)

func migrateSQL() command {
	return command{
		name:    "sql",
		summary: "Prints the SQL that \"migrate up\" would run on an empty schema.",
		notes: `Connects to nothing. The SQL is one transaction for psql or another tool, may run again, and records the
version, so that "migrate up" later has nothing to do:
  pglock migrate sql -schema leases | psql -v ON_ERROR_STOP=1
`,
		setup: func(flags *flag.FlagSet) action {
			var schema string
			schemaFlag(flags, &schema)
			return func(_ context.Context, env environment) error {
				script, err := migrations.Script(migrations.Options{Schema: schema})
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(env.stdout, script)
				return err
			}
		},
	}
}
