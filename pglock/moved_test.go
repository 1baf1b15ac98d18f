package pglock_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// moving is for leases that are renewed often, and outlive the test without that.
var moving = pglock.Config{TTL: 5 * time.Minute, RenewInterval: 100 * time.Millisecond, RequestTimeout: 5 * time.Second}

// A moved is an address that leads to the present primary, and did lead to a former one that is still alive and takes writes.
type moved struct {
	former, present installation
	through         installation
	client          *pglock.Client // made through the address before it moved
	held            *pglock.Lease  // taken then; the present primary knows of it
}

func move(t *testing.T) moved {
	t.Helper()
	primary := pgtest.Private(t, nil)
	m := moved{former: installOn(t, primary.DSN())}
	proxy, dsn := faultnet.ListenDSN(t, primary.DSN())
	m.through = installation{dsn: dsn, schema: m.former.schema, pool: pgtest.Pool(t, dsn)}
	standby := pgtest.Standby(t, primary)
	m.client = m.through.client(t, moving)
	m.held = take(t, m.client, "held")
	require.NoError(t, take(t, m.client, "n").Release(t.Context()))
	m.former.exec(t, "SELECT pg_logical_emit_message(true, '', '')") // A release does not wait for the WAL.
	require.NoError(t, standby.CatchUp(t.Context(), primary))
	require.NoError(t, standby.Promote(t.Context()))
	to, err := pgx.ParseConfig(standby.DSN())
	require.NoError(t, err)
	proxy.Retarget(net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	m.present = installation{dsn: standby.DSN(), schema: m.former.schema, pool: pgtest.Pool(t, standby.DSN())}
	return m
}

// requireRenewed wants a lease renewed on the present primary from now on.
func (m moved) requireRenewed(t *testing.T, l *pglock.Lease) {
	t.Helper()
	now := value[string](t, m.present, "SELECT clock_timestamp()::text")
	require.Eventually(t, func() bool {
		return value[bool](t, m.present, "SELECT renewed_at > $1::text::timestamptz FROM %s.pglock_leases WHERE name = $2 AND token = $3",
			now, l.Name(), int64(l.Token()))
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, l.Err())
}

// The pool learns that it leads to a former primary. The connection for renewals leaves it as well, although there it would
// go on without a word.
func TestMoved_RenewalsFollowThePoolThatLeftAFormerPrimary(t *testing.T) {
	t.Parallel()
	m := move(t)
	other := take(t, m.present.client(t, moving), "n")
	token := other.Token()
	fence := fencing.Fence{Name: "n", Schema: m.former.schema}
	require.NoError(t, pgx.BeginFunc(t.Context(), m.former.pool, func(tx pgx.Tx) error {
		return fence.AdvanceTx(t.Context(), tx, token) // A client brings the former primary a token of the present one.
	}))
	_, err := m.client.TryAcquire(t.Context(), "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired, "the present primary says so")
	m.requireRenewed(t, m.held)
}

// The pool has left the former primary by itself, and is granted what that one knows nothing of: no answer of it is the last
// word.
func TestMoved_GrantOfThePresentPrimaryOutlivesTheWordOfAFormerOne(t *testing.T) {
	t.Parallel()
	m := move(t)
	m.through.pool.Reset()
	older, unknown := take(t, m.client, "n"), take(t, m.client, "unknown")
	m.requireRenewed(t, older)
	m.requireRenewed(t, unknown)
	m.requireRenewed(t, m.held)
}
