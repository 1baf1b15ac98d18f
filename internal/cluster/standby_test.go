//go:build linux

package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// whatClientsAreTold looks at what the library says on members that do not lead, and what becomes of a lease in a switchover.
func whatClientsAreTold(t *testing.T, c *cluster.Cluster, schema string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leader, err := c.Whole(ctx)
	require.NoError(t, err)
	for _, m := range c.Members {
		if m == leader {
			continue
		}
		until(ctx, t, m, inSchema("SELECT to_regclass('{schema}.job_fences') IS NOT NULL", schema)) // It may lag behind.
		// A standby grants nothing and says what is missing. It does not say that somebody else has the lease: it could not know.
		_, err := client(t, m.DSN(), schema, requestTimeout).TryAcquire(ctx, "told")
		require.ErrorContains(t, err, "the server is read-only, perhaps a standby: add target_session_attrs=read-write")
		require.NotErrorIs(t, err, pglock.ErrNotAcquired)
		// With the option no session is opened there.
		for _, attribute := range []string{"read-write", "primary"} {
			_, err = client(t, m.DSN()+"&target_session_attrs="+attribute, schema, time.Second).TryAcquire(ctx, "told")
			require.ErrorContains(t, err, attributeRefusals[attribute])
			require.NotErrorIs(t, err, pglock.ErrNotAcquired)
		}
	}
	// A lease that outlives a switchover is renewed on the new leader, under its token; the former one refuses its holder's writes.
	var leases []*pglock.Lease
	for _, attribute := range []string{"read-write", "primary"} {
		locks := client(t, c.DSN("connect_timeout=1&target_session_attrs="+attribute), schema, requestTimeout)
		lease, err := locks.Acquire(ctx, "kept by "+attribute)
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	require.NoError(t, c.Switchover(ctx, leader))
	former := leader
	leader, err = c.Leader(ctx, former)
	require.NoError(t, err)
	for _, lease := range leases {
		renewed(ctx, t, leader, schema, lease)
		require.NoError(t, lease.Err())
	}
	_, err = c.Whole(ctx)
	require.NoError(t, err)
	for _, lease := range leases {
		require.ErrorContains(t, fenced(ctx, t, former, lease), "read-only transaction")
		require.NoError(t, fenced(ctx, t, leader, lease))
		require.NoError(t, lease.Release(ctx))
	}
}

// fenced is a transaction under a lease on one member.
func fenced(ctx context.Context, t *testing.T, m *cluster.Member, lease *pglock.Lease) error {
	t.Helper()
	return pgx.BeginFunc(ctx, pgtest.Pool(t, m.DSN()), func(tx pgx.Tx) error { return lease.AdvanceTx(ctx, tx) })
}

// attributeRefusals are pgx's words for a server that is not what the connection string asks for.
var attributeRefusals = map[string]string{"read-write": "read only connection", "primary": "server is in standby mode"}

// client is a client that gives the database some time for each question.
func client(t *testing.T, dsn, schema string, timeout time.Duration) *pglock.Client {
	t.Helper()
	locks, err := pglock.New(pgtest.Pool(t, dsn), pglock.Config{
		Schema: schema, Label: "asks", TTL: 2 * time.Minute, RenewInterval: 200 * time.Millisecond, RequestTimeout: timeout,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = locks.Close(ctx) // The cluster may be gone if the test failed.
	})
	return locks
}

// renewed waits until a lease has been renewed on a member, from now on.
func renewed(ctx context.Context, t *testing.T, m *cluster.Member, schema string, lease *pglock.Lease) {
	t.Helper()
	var now time.Time
	require.NoError(t, m.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	}))
	until(ctx, t, m, inSchema("SELECT renewed_at > $3::timestamptz FROM {schema}.pglock_leases WHERE name = $1 AND token = $2", schema),
		lease.Name(), int64(lease.Token()), now)
}

// until waits until a member answers a question with true.
func until(ctx context.Context, t *testing.T, m *cluster.Member, sql string, args ...any) {
	t.Helper()
	require.NoError(t, m.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for done := false; !done; {
			if err := conn.QueryRow(ctx, sql, args...).Scan(&done); err != nil {
				return err
			}
			if !sleep(ctx, 50*time.Millisecond) {
				return ctx.Err()
			}
		}
		return nil
	}))
}
