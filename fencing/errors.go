package fencing

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrStale is returned when the token is below the fence, or at it in the strict form; the error is a [*StaleError].
	// Roll back: somebody else was granted the name, or has written under a higher token.
	ErrStale = errors.New("fencing: stale token")

	// ErrNoFence is returned when the fence has no row: it was never granted nor created in this database and schema, it was
	// deleted, or the transaction's snapshot is older than the row.
	ErrNoFence = errors.New("fencing: no fence")

	// ErrNotRaised is returned by the shared form when the token is above the fence: the grant that should have raised it
	// is not in this database. Use [Fence.AdvanceTx] there.
	ErrNotRaised = errors.New("fencing: fence not raised")
)

// A StaleError says which token was refused by which fence. It matches [ErrStale].
type StaleError struct {
	Name  string // of the fence
	Token Token  // the one refused
	Fence Token  // the value of the fence, read just after the refusal
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Fence == e.Token {
		return fmt.Sprintf("fencing: token %d for %q is stale: it was used before, and this check passes it once", e.Token, e.Name)
	}
	return fmt.Sprintf("fencing: token %d for %q is stale: the fence is at %d", e.Token, e.Name, e.Fence)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// explain wraps an error of the driver once, and adds what an operator can do about missing tables. Everything else passes
// through: a serialization failure, a deadlock or a timeout is for the caller's retry loop, and never stale.
func (f Fence) explain(o op, err error) error {
	missing := ""
	if o != opRun && sqlState(err) == "42501" {
		return fmt.Errorf("fencing: %s %q: this role lacks a privilege in schema %q, or on the table: docs/roles.sql has the grants: %w",
			o, f.Name, f.schema(), err)
	}
	switch code, guards := sqlState(err), o == opGuard || o == opGuardRows || o == opUnguard || o == opGuards; {
	case o == opRun: // may be of a table of work
	case !guards && (code == "42P01" || code == "3F000" || code == "42703"): // undefined table, schema, column
		missing = "table job_fences"
	case guards && code == "42883": // undefined function; an undefined table may be the one to guard
		missing = "functions for guards"
	}
	if missing != "" {
		return fmt.Errorf("fencing: %s %q: no %s of this version in schema %q: run: pglock migrate up -schema %s: %w",
			o, f.Name, missing, f.schema(), shellQuote(f.schema()), err)
	}
	return fmt.Errorf("fencing: %s %q: %w", o, f.Name, err)
}

// missing is the error for a fence without a row.
func (f Fence) missing(o op) error {
	return fmt.Errorf("%w: %s %q: no such row in job_fences of schema %q when it was checked", ErrNoFence, o, f.Name, f.schema())
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
