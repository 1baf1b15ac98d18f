package otherlanguages

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// TestPooler_EveryLanguageThroughPgBouncer: in transaction mode, where nothing of a session stays. The programs find their
// tables by a setting of the database, as a pooler does not pass on options of a session.
func TestPooler_EveryLanguageThroughPgBouncer(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	place := newPlaceOn(t, findPrograms(t), server.DSN(), pgtest.MigratedOn(t, server.DSN()))
	database := value[string](t, place, "SELECT current_database()::text")
	place.exec(t, fmt.Sprintf("ALTER DATABASE %s SET search_path = %s", quoted(database), quoted(place.schema)))
	place.dsn = pgtest.PgBouncer(t, server.DSN(), pgserver.BouncerOptions{}).DSN()
	place.options = ""
	place.runAll(t)
}

// TestRights_AreThoseOfTheDocument: a role with no other rights on the tables of Leasehold.
func TestRights_AreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	place := newPlaceOn(t, findPrograms(t), server.DSN(), pgtest.MigratedOn(t, server.DSN()))
	place.exec(t, fmt.Sprintf(`CREATE ROLE jobs LOGIN;
GRANT USAGE ON SCHEMA %s TO jobs;
GRANT SELECT, INSERT, UPDATE ON pglock_leases, job_fences, pglock_epochs TO jobs;
GRANT SELECT, UPDATE ON orders TO jobs;
GRANT INSERT ON invoices TO jobs;
GRANT USAGE ON SEQUENCE invoices_number_seq TO jobs`, quoted(place.schema)))
	config, err := pgx.ParseConfig(server.DSN())
	require.NoError(t, err)
	place.dsn = fmt.Sprintf("postgres://jobs@%s:%d/%s?sslmode=disable", config.Host, config.Port, config.Database)
	place.runAll(t)
}

// runAll runs each of the programs. The library has tests of its own for what is tested here.
func (p place) runAll(t *testing.T) {
	t.Helper()
	for i, w := range writers()[:3] {
		customer := string(rune('a' + i))
		require.Equal(t, fmt.Sprintf("invoiced %s with token %d", customer, i+1), w.run(t, p, customer), w.language)
	}
}
