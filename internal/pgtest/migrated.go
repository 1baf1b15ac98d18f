package pgtest

import (
	"testing"

	"github.com/leasehold-go/leasehold/migrations"
)

// Migrated is [Schema] with the tables of this project installed.
func Migrated(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn, schema = Schema(t)
	err := migrations.Up(t.Context(), migrations.URL(dsn), migrations.Options{Schema: schema})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return dsn, schema
}
