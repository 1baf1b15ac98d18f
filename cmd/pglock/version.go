package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"

	"github.com/leasehold-go/leasehold/migrations"
)

func version() command {
	return command{
		name:    "version",
		summary: "Prints the version of this command and of the tables that it needs.",
		setup: func(*flag.FlagSet) action {
			return func(_ context.Context, env environment) error {
				build := "(unknown)"
				if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
					build = info.Main.Version
				}
				_, err := fmt.Fprintf(env.stdout, "pglock %s, tables version %d\n", build, migrations.Newest)
				return err
			}
		},
	}
}
