package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// PgBouncer returns a PgBouncer in transaction mode in front of the server that a DSN names, closed at the end of the
// test. Before version 1.21 it does not carry prepared statements: pgx needs default_query_exec_mode=exec (or
// cache_describe, simple_protocol).
func PgBouncer(t testing.TB, dsn string, options pgserver.BouncerOptions) *pgserver.Bouncer {
	t.Helper()
	if !pgserver.HasPgBouncer() {
		Skip(t, "PgBouncer is not installed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bouncer, err := pgserver.StartBouncer(ctx, dsn, options)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	closeAtEnd(t, bouncer.Close)
	return bouncer
}
