package roles

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// gate is the key of a name's advisory lock, by the documented formula.
const gate = `('x' || encode(substr(sha256(convert_to('pglock gate 1', 'UTF8') || '\x00' || convert_to($1, 'UTF8') || '\x00' || convert_to($2, 'UTF8') || '\x00'), 1, 8), 'hex'))::bit(64)::bigint`

// TestThreats_AdvisoryKeyKeepsANameBusyAndNothingElse: a role without any grant takes the key of a name.
func TestThreats_AdvisoryKeyKeepsANameBusyAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	client := c.client(t, c.application)
	held, err := client.TryAcquire(limit(t), "held")
	require.NoError(t, err)
	foreign := connect(t, c.as(t, c.nobody))
	for _, name := range []string{"held", "free"} {
		_, err := foreign.Exec(limit(t), "SELECT pg_advisory_lock("+gate+")", c.schema, name)
		require.NoError(t, err)
	}
	_, err = client.TryAcquire(limit(t), "free")
	var busy *pglock.HeldError
	require.ErrorAs(t, err, &busy)
	require.True(t, busy.Busy)
	require.Equal(t, []int32{int32(foreign.PgConn().PID())}, busy.Blockers)

	admin := connect(t, c.dsn)
	before := one[time.Time](t, admin, "SELECT renewed_at FROM "+c.table("pglock_leases")+" WHERE name = 'held'")
	require.Eventually(t, func() bool {
		return one[bool](t, admin, "SELECT renewed_at > $1 FROM "+c.table("pglock_leases")+" WHERE name = 'held'", before)
	}, 30*time.Second, 20*time.Millisecond, "renewals take no key")
	require.NoError(t, held.Release(limit(t)))
	other, err := client.TryAcquire(limit(t), "another")
	require.NoError(t, err)
	require.NoError(t, other.Release(limit(t)))
	require.True(t, one[bool](t, admin, "SELECT pg_terminate_backend($1)", foreign.PgConn().PID()))
	free, err := client.Acquire(limit(t), "free")
	require.NoError(t, err)
	require.NoError(t, free.Release(limit(t)))
}

// TestThreats_WhatARoleThatAcquiresCanBreak is what docs/security.md admits, so that it is not believed to hold.
func TestThreats_WhatARoleThatAcquiresCanBreak(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	client, pool := c.client(t, c.application), pgtest.Pool(t, c.as(t, c.application))
	lease, err := client.TryAcquire(limit(t), "job")
	require.NoError(t, err)
	stale := lease.Token()
	execute(t, c.as(t, c.application), "UPDATE "+c.table("pglock_leases")+" SET expires_at = NULL")
	second, err := c.client(t, c.application).TryAcquire(limit(t), "job")
	require.NoError(t, err)
	require.Greater(t, second.Token(), stale, "a lease that is freed by hand")
	pass := func() error {
		return transact(t, pool, func(tx pgx.Tx) error { return lease.Fence().AdvanceTx(limit(t), tx, stale) })
	}
	require.ErrorIs(t, pass(), fencing.ErrStale)

	execute(t, c.as(t, c.application), "UPDATE "+c.table("pglock_leases")+" SET token = 1, expires_at = NULL")
	third, err := c.client(t, c.application).TryAcquire(limit(t), "job")
	require.NoError(t, err)
	require.Greater(t, third.Token(), second.Token(), "a lease whose token is lowered by hand: the fence counts too")

	execute(t, c.as(t, c.application), "UPDATE "+c.table("job_fences")+" SET token = 1")
	require.NoError(t, pass(), "a fence that is lowered by hand")
	execute(t, c.as(t, c.application), "UPDATE "+c.table("job_fences")+" SET token = 9223372036854775807")
	execute(t, c.as(t, c.application), "UPDATE "+c.table("pglock_leases")+" SET expires_at = NULL")
	_, err = c.client(t, c.application).TryAcquire(limit(t), "job")
	require.ErrorContains(t, err, "beyond what can be granted")
}

// TestThreats_RowSecurityGrantsNothingTwice: policies by a prefix of the name are no boundary that is supported. What they hide fails
// or is busy, and is never granted.
func TestThreats_RowSecurityGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	other := unique("application")
	execute(t, c.dsn, "CREATE ROLE "+other+"; GRANT "+c.application+" TO "+other)
	t.Cleanup(func() { execute(t, c.dsn, "DROP OWNED BY "+other+"; DROP ROLE "+other) })
	held, err := c.client(t, c.operator).TryAcquire(limit(t), "a/job")
	require.NoError(t, err)
	for _, table := range []string{"pglock_leases", "job_fences"} {
		execute(t, c.as(t, c.operator), "ALTER TABLE "+c.table(table)+" ENABLE ROW LEVEL SECURITY; CREATE POLICY b ON "+c.table(table)+
			" TO "+other+" USING (starts_with(name, 'b/'))")
	}
	client := c.client(t, other)
	own, err := client.TryAcquire(limit(t), "b/job")
	require.NoError(t, err)
	require.NoError(t, own.Release(limit(t)))
	for _, name := range []string{"a/job", "a/new"} {
		ctx, cancel := context.WithTimeout(limit(t), 10*time.Second)
		_, err = client.TryAcquire(ctx, name)
		cancel()
		require.Error(t, err, name)
	}
	require.NoError(t, held.Err())
	require.Equal(t, int64(held.Token()), one[int64](t, connect(t, c.dsn), "SELECT token FROM "+c.table("pglock_leases")+" WHERE name = 'a/job'"))
	require.NoError(t, held.Release(limit(t)))
}
