// Command db starts a PostgreSQL server with Leasehold's tables, prints its DSN and how to use it, and stops the server
// on Ctrl-C. It is what `make db` runs. A server named by DATABASE_URL is used as it is, and left with the tables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/migrations"
)

func main() {
	schema := flag.String("schema", migrations.DefaultSchema, "`name` of the schema for the tables")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *schema, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "db:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, schema string, out, progress io.Writer) (err error) {
	server, err := pgserver.Start(ctx, pgserver.Options{
		Progress: func(message string) { fmt.Fprintln(progress, message) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := migrations.Up(ctx, migrations.URL(server.DSN()), migrations.Options{Schema: schema}); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, with the tables of Leasehold in schema %q. Ctrl-C stops it.\n\n", server.Source(), schema)
	fmt.Fprintf(out, "  psql '%s'\n  DATABASE_URL='%s' go test ./...\n", server.DSN(), server.DSN())
	<-ctx.Done()
	return nil
}
