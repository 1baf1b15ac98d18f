package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasehold-go/leasehold/migrations"
)

const databaseNotes = `Database: the -database flag, else the variable DATABASE_URL; a URL or keyword=value pairs. What it leaves
out comes from the standard variables PGHOST, PGPORT, PGUSER, PGDATABASE, PGPASSWORD, PGSERVICE and the
files PGPASSFILE and PGSERVICEFILE. Other users of this machine can read a command line: keep passwords
out of -database.
`

// database is the flags of every command that connects.
type database struct {
	url     string
	schema  string
	timeout time.Duration
}

func databaseFlags(flags *flag.FlagSet) *database {
	d := &database{}
	schemaFlag(flags, &d.schema)
	flags.StringVar(&d.url, "database", "", "connection `string`, without a password; default: DATABASE_URL, then PG* variables")
	flags.DurationVar(&d.timeout, "timeout", 5*time.Minute, "give up after this `time`; 0: never")
	return d
}

func schemaFlag(flags *flag.FlagSet, schema *string) {
	flags.StringVar(schema, "schema", migrations.DefaultSchema, "`name` of the schema of the tables, without quotes")
}

// db is the database to connect to.
func (d *database) db(env environment) migrations.DB {
	if d.url != "" {
		return migrations.URL(d.url)
	}
	return migrations.URL(env.getenv("DATABASE_URL"))
}

// limited bounds ctx by -timeout. The cause is told apart from an interruption.
func (d *database) limited(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case d.schema == "":
		return nil, nil, &usageError{reason: "-schema is empty; leave the flag out for " + migrations.DefaultSchema}
	case d.timeout < 0:
		return nil, nil, &usageError{reason: fmt.Sprintf("-timeout %s: must not be negative", d.timeout)}
	case d.timeout == 0:
		return ctx, func() {}, nil
	}
	cause := fmt.Errorf("-timeout of %s is over: %w", d.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, cause)
	return ctx, cancel, nil
}

// options are those of the migrations, with what happens told on stderr.
func (d *database) options(env environment) migrations.Options {
	handler := slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelInfo})
	return migrations.Options{Schema: d.schema, Logger: slog.New(handler)}
}
