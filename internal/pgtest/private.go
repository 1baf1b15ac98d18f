package pgtest

import (
	"context"
	"testing"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// Private returns a server of the test's own, with these lines in its postgresql.conf, closed at the end of the test.
// The test may stop, kill and freeze it.
func Private(t testing.TB, settings map[string]string) *pgserver.Server {
	t.Helper()
	return PrivateWith(t, pgserver.Options{Settings: settings})
}

// PrivateWith is [Private] with all that a server can be told.
func PrivateWith(t testing.TB, options pgserver.Options) *pgserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	options.Private = true
	server, err := pgserver.Start(ctx, options)
	if err != nil {
		// A DSN is enough to run the other tests on.
		Skip(t, "a server of its own is needed: "+err.Error())
	}
	closeAtEnd(t, server.Close)
	return server
}

func closeAtEnd(t testing.TB, close func() error) {
	t.Cleanup(func() {
		if err := close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
}
