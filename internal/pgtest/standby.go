package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// Standby returns a hot standby of a [Private] server, streaming asynchronously, closed at the end of the test. See
// [pgserver.Server.Promote], [pgserver.Server.Detach] and [pgserver.Server.CatchUp].
func Standby(t testing.TB, primary *pgserver.Server) *pgserver.Server {
	t.Helper()
	if !primary.CanStandby() {
		Skip(t, "a standby needs PostgreSQL binaries with pg_basebackup; the primary is "+primary.Source())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := primary.Standby(ctx)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	closeAtEnd(t, server.Close)
	return server
}
