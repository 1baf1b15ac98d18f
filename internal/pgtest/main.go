package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// startLimit bounds the start of a server; a download may be part of it.
const startLimit = 5 * time.Minute

// shared is the server of this test binary: started when the first test asks for it, closed by [Main]. It is a
// package variable because a test binary has one TestMain, and no other place that all tests share.
var shared = sync.OnceValues(func() (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{})
	closeShared = func() error {
		if server == nil {
			return nil
		}
		return server.Close()
	}
	return server, err
})

// closeShared does nothing as long as no test has asked for the shared server. It is read after the last test.
var closeShared = func() error { return nil }

// Main runs the tests of a package, closes the server that they shared, if one did, looks for goroutines that they
// left, and exits.
func Main(m *testing.M) {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	// After a failure goroutines may be left for good reasons; they would only hide it.
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintf(os.Stderr, "pgtest: the tests passed and left goroutines: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Server returns the shared server. Nobody stops it.
func Server(t testing.TB) *pgserver.Server {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return server
}
