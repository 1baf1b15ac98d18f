// Command pglock is the command line of Leasehold: it installs the tables, prints the
// statements for other languages and shows what is there. Run "pglock help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], environment{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv})
	stop()
	os.Exit(code)
}

// root is the tree of commands. A command is one file; to add one, write its file and name it here.
func root() group {
	return group{
		name:    "pglock",
		summary: "Leases, fences and their tables in PostgreSQL.",
		members: []member{
			migrate(),
			epoch(),
			sqlGroup(),
			version(),
		},
		notes: databaseNotes + "\n" + exitNotes,
	}
}
