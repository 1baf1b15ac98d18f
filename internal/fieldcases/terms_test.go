package fieldcases_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
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

// believers are the leases of one name whose holders are at work. At most one of them may believe that it is held: a
// machine that stalls can keep a holder at work for longer than its term, but not its trust.
type believers struct {
	mu     sync.Mutex
	leases map[*pglock.Lease]bool
}

// enter is for the beginning of the work; what it returns is for the end.
func (b *believers) enter(t testing.TB, lease *pglock.Lease) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leases == nil {
		b.leases = map[*pglock.Lease]bool{}
	}
	b.leases[lease] = true
	trusted := 0
	// All of them were granted before this point: of two, the term of one had ended before the other was granted.
	for other := range b.leases {
		if other.Err() == nil {
			trusted++
		}
	}
	if trusted > 1 {
		t.Errorf("%d holders of %q at once", trusted, lease.Name())
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.leases, lease)
	}
}
