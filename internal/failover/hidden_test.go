package failover_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// A role that may not ask which cluster it is on, as on some managed services: tokens are a plain counter, the log says so
// once, a failover that loses the last grants repeats them, and raising the epoch after it is the cure.
func TestHidden_PlainCounterRepeatsUntilTheEpochIsRaised(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	run(t, p.primary.DSN(), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "CREATE ROLE app LOGIN",
		"GRANT SELECT, INSERT, UPDATE ON pglock_leases, job_fences, pglock_epochs TO app")
	before, after := as(t, "app", p.primary.DSN()), as(t, "app", p.standby.DSN())
	require.EqualValues(t, 3, grants(t, before, "n", 3))
	p.part(t)

	var log records
	config := lasting
	config.Logger = slog.New(&log)
	c := client(t, before, config)
	lease := take(t, c, "n")
	require.EqualValues(t, 4, lease.Token())
	require.NoError(t, lease.Release(t.Context()))
	require.EqualValues(t, 1, take(t, c, unseen).Token())
	require.NoError(t, c.Check(t.Context()))
	require.Equal(t, 1, log.count("plain counter"), "said once, however many grants")

	p.killAndPromote(t)
	require.Equal(t, lease.Token(), take(t, client(t, after, lasting), "n").Token(), "repeated")
	pool := pgtest.Pool(t, after)
	require.NoError(t, write(t, pool, lease.AdvanceTx), "the old holder passes for the new one")

	raised := raise(t, after)
	require.Equal(t, pglock.Raise{Base: 1024, Leases: 1, Fences: 1}, raised)
	require.ErrorIs(t, write(t, pool, lease.AdvanceTx), fencing.ErrStale)
	last := above(t, after, "n", lease.Token())
	require.Greater(t, last, 1024*lead)
	require.Equal(t, 1024*lead+1, take(t, client(t, after, lasting), unseen).Token(), "a name that the standby had not seen")

	// One raise is for one failover.
	next := pair{p.standby, pgtest.Standby(t, p.standby)}
	after = as(t, "app", next.standby.DSN())
	next.part(t)
	missed := grants(t, as(t, "app", next.primary.DSN()), "n", 3)
	next.killAndPromote(t)
	require.Equal(t, last+1, grants(t, after, "n", 1), "repeated")
	raise(t, after)
	require.Greater(t, above(t, after, "n", missed), 2048*lead)
}

// as is a connection string of another role.
func as(t testing.TB, role, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.User(role)
	return u.String()
}

// The raise counts for the application too if a role runs it that the server tells who it is.
func TestHidden_AnOperatorOfAnotherRoleRaises(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	run(t, p.primary.DSN(), "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC", "CREATE ROLE app LOGIN",
		"GRANT SELECT, INSERT, UPDATE ON pglock_leases, job_fences, pglock_epochs TO app")
	before, after := as(t, "app", p.primary.DSN()), as(t, "app", p.standby.DSN())
	grants(t, before, "n", 3)
	p.part(t)
	missed, other := grants(t, before, "n", 3), grants(t, before, unseen, 3)
	p.killAndPromote(t)
	raise(t, p.standby.DSN()) // A superuser, who may ask.
	above(t, after, "n", missed)
	above(t, after, unseen, other)
}

// records keeps what a client logs as warnings.
type records struct {
	slog.Handler
	mu   sync.Mutex
	kept []string
}

func (r *records) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, record.Message)
	return nil
}

func (r *records) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, message := range r.kept {
		if strings.Contains(message, text) {
			n++
		}
	}
	return n
}
