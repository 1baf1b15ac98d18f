package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Exit codes. They are an interface: a number keeps its meaning.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPending = 3
)

const exitNotes = `Exit codes:
  0  done
  1  failed: the reason is on stderr, and the same command may be run again
  2  used wrongly: nothing was done
  3  migrate version: read, but this pglock needs "migrate up" first
`

// run runs the command that the words name, and returns the exit code.
func run(ctx context.Context, words []string, env environment) int {
	err := root().invoke(ctx, env, []string{"pglock"}, words)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errPending):
		return exitPending // said already
	case errors.As(err, &usage):
		fmt.Fprintln(env.stderr, usage)
		return exitUsage
	}
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintf(env.stderr, "pglock: %s\n", err)
	return exitFailed
}

// usageError says what is wrong with the words, and what to do.
type usageError struct {
	path   []string
	reason string
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%s: %s\nRun \"%s -help\" for its usage.", strings.Join(e.path, " "), e.reason, strings.Join(e.path, " "))
}

// errPending: the database is behind this command.
var errPending = errors.New("migrations are pending")
