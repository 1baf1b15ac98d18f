package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold-go/leasehold/migrations"
)

// Migrated is [Schema] with the tables of Leasehold in it.
func Migrated(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn = Server(t).DSN()
	schema = MigratedOn(t, dsn)
	return dsn, schema
}

// MigratedOn is [Migrated] on another server.
func MigratedOn(t testing.TB, dsn string) string {
	t.Helper()
	schema := SchemaOn(t, dsn)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := migrations.Up(ctx, migrations.URL(dsn), migrations.Options{Schema: schema}); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return schema
}
