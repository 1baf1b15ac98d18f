package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leasehold-go/leasehold/migrations"
)

const databaseNotes = `Database: the -database flag, else the variable DATABASE_URL; a URL or keyword=value pairs. What it leaves
out comes from the standard variables PGHOST, PGPORT, PGUSER, PGDATABASE, PGPASSWORD, PGSERVICE and the
files PGPASSFILE and PGSERVICEFILE. With none of them the command refuses, rather than guess; so it does if the
string is there and names no host, database, user or service. Other users of this machine can read a command
line: keep passwords out of -database.
`

// database is the flags of every command that connects.
type database struct {
	flags   *flag.FlagSet
	url     string
	schema  string
	timeout time.Duration
}

func databaseFlags(flags *flag.FlagSet) *database {
	d := &database{flags: flags}
	schemaFlag(flags, &d.schema)
	flags.StringVar(&d.url, "database", "", "connection `string`, without a password; default: DATABASE_URL, then PG* variables")
	flags.DurationVar(&d.timeout, "timeout", 5*time.Minute, "give up after this `time`; 0: never")
	return d
}

func schemaFlag(flags *flag.FlagSet, schema *string) {
	flags.StringVar(schema, "schema", migrations.DefaultSchema, "`name` of the schema of the tables, without quotes")
}

// connString is what to connect by; "" leaves all to the PG* variables.
func (d *database) connString(env environment) string {
	connString, _ := d.source(env)
	return connString
}

// source is the connection string and what it comes from. A blank one is as good as none.
func (d *database) source(env environment) (connString, from string) {
	connString, from = d.url, "-database"
	if isBlank(connString) {
		connString, from = env.getenv("DATABASE_URL"), "DATABASE_URL"
	}
	if isBlank(connString) {
		return "", ""
	}
	return connString, from
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// db is the database to connect to.
func (d *database) db(env environment) migrations.DB { return migrations.URL(d.connString(env)) }

// named refuses to go to whatever the system's defaults lead to: a script with an unset variable must not reach the wrong database.
func (d *database) named(env environment) error {
	given := false
	d.flags.Visit(func(f *flag.Flag) { given = given || f.Name == "database" })
	connString, from := d.source(env)
	switch {
	case given && isBlank(d.url):
		return &usageError{reason: "-database is empty; leave the flag out for DATABASE_URL and the PG* variables"}
	case connString == "":
	case isMisread(connString):
		return &usageError{reason: from + " is not understood (not shown, it may have a password): write a URL that starts with " +
			"postgres:// or postgresql://, with no blank or quote before it and @ : / ? # % of a password as " +
			"%40 %3A %2F %3F %23 %25, or keyword=value pairs such as host=db.example.com dbname='app', with quotes where a value may be empty"}
	case !namesDatabase(connString):
		return &usageError{reason: from + " names no host, database, user or service (not shown, it may have a password): " +
			"is a variable in it not set? Without a string the PG* variables tell"}
	default:
		return nil
	}
	for _, name := range databaseVariables {
		if !isBlank(env.getenv(name)) {
			return nil
		}
	}
	return &usageError{reason: "no database given: set -database or one of " + strings.Join(databaseVariables, ", ")}
}

// databaseVariables each name a database, or a part of it.
var databaseVariables = []string{"DATABASE_URL", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"}

// limited checks the flags, and bounds ctx by -timeout. The cause is told apart from an interruption.
func (d *database) limited(ctx context.Context, env environment) (context.Context, context.CancelFunc, error) {
	switch {
	case d.schema == "":
		return nil, nil, &usageError{reason: "-schema is empty; leave the flag out for " + migrations.DefaultSchema}
	case d.timeout < 0:
		return nil, nil, &usageError{reason: fmt.Sprintf("-timeout %s: must not be negative", d.timeout)}
	}
	if err := d.named(env); err != nil {
		return nil, nil, err
	}
	if d.timeout == 0 {
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
