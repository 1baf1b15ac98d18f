package fieldcases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watch has the database itself note every version of a lease's row, in the transaction that wrote it. Numbers are drawn
// under the row's lock, so those of one name are in the order of the commits.
func (p place) watch(t testing.TB) {
	t.Helper()
	p.exec(t, `
		CREATE TABLE %s.versions (
			seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			at timestamptz NOT NULL,
			name text COLLATE "C" NOT NULL,
			token bigint NOT NULL,
			acquired_at timestamptz NOT NULL,
			expires_at timestamptz
		)`)
	p.exec(t, `
		CREATE FUNCTION %s.note_version() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO %s.versions (at, name, token, acquired_at, expires_at)
			VALUES (clock_timestamp(), NEW.name, NEW.token, NEW.acquired_at, NEW.expires_at);
			RETURN NULL;
		END $$`)
	p.exec(t, `CREATE TRIGGER note_version AFTER INSERT OR UPDATE ON %s.pglock_leases FOR EACH ROW EXECUTE FUNCTION %s.note_version()`)
}

// terms is how many terms of a name began, all names if it is empty.
func (p place) terms(t testing.TB, name string) int {
	t.Helper()
	return value[int](t, p, "SELECT count(DISTINCT (name, token)) FROM %s.versions WHERE $1 IN ('', name)", name)
}

// inTurn requires of what watch noted, on the database's clock: tokens rise, and a term begins when the one before was
// released or had expired.
func (p place) inTurn(t testing.TB) {
	t.Helper()
	const begun = `
		FROM (
			SELECT *, lag(token) OVER w AS token_before, lag(expires_at) OVER w AS expiry_before
			FROM %s.versions
			WINDOW w AS (PARTITION BY name ORDER BY seq)
		) AS v
		WHERE token <> token_before`
	require.Zero(t, value[int](t, p, "SELECT count(*)"+begun+" AND token < token_before"), "a token fell")
	require.Zero(t, value[int](t, p, "SELECT count(*)"+begun+" AND expiry_before > acquired_at"), "two terms overlap")
}

// expiriesAre requires that each expiry was the database's clock plus ttl when it was written, within a second.
func (p place) expiriesAre(t testing.TB, ttl time.Duration) {
	t.Helper()
	require.Zero(t, value[int](t, p, `
		SELECT count(*)
		FROM %s.versions
		WHERE abs(extract(epoch FROM expires_at - at) - $1::float8) > 1`, ttl.Seconds()))
}
