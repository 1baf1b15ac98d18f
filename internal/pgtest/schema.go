package pgtest

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// schemas counts, so that a run has plain names and names that need quoting.
var schemas atomic.Int64

// Schema returns the DSN of the shared server and the name of a fresh, empty schema there, dropped at the end of the
// test. The DSN says nothing about the schema. Every third name needs quoting, and breaks code that forgets it.
func Schema(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn = Server(t).DSN()
	schema = SchemaOn(t, dsn)
	return dsn, schema
}

// SchemaOn is [Schema] on another server.
func SchemaOn(t testing.TB, dsn string) string {
	t.Helper()
	schema := schemaName()
	quoted := pgx.Identifier{schema}.Sanitize()
	exec(t, dsn, "CREATE SCHEMA "+quoted)
	t.Cleanup(func() {
		// A test that left a transaction open gets told, and not a hang.
		exec(t, dsn, "SET client_min_messages = warning; SET lock_timeout = '10s'; DROP SCHEMA "+quoted+" CASCADE")
	})
	return schema
}

// schemaName is random, too: another run may use the same server.
func schemaName() string {
	random := strings.ToLower(rand.Text()[:10])
	if schemas.Add(1)%3 == 0 {
		return `Test "` + random + `".x`
	}
	return "test_" + random
}

// exec runs statements on a connection of its own, as simple queries.
func exec(t testing.TB, dsn, sql string) {
	t.Helper()
	// Not t.Context: that one has ended when cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Errorf("pgtest: %v", err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		t.Errorf("pgtest: %s: %v", sql, err)
	}
}
