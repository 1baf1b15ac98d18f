package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// altered is a client whose statements were changed.
func altered(t *testing.T, alter func(*statements)) *Client {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	c, err := New(pgtest.Pool(t, dsn), Config{Schema: schema, TTL: 10 * time.Second, RequestTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(t.Context())) })
	require.NoError(t, c.Check(t.Context()))
	s := *c.quick.Load()
	alter(&s)
	c.quick.Store(&s)
	return c
}

func replaced(t *testing.T, text *string, from, to string) {
	t.Helper()
	require.Contains(t, *text, from)
	*text = strings.ReplaceAll(*text, from, to)
}

// Invariant I7: the row is the authority. With a gate that is always open, as some poolers and look-alike databases have
// it, there is no double grant.
func TestGate_AlwaysOpenGrantsNothingTwice(t *testing.T) {
	t.Parallel()
	c := altered(t, func(s *statements) {
		replaced(t, &s.acquire, "pg_try_advisory_xact_lock($4::bigint)", "$4::bigint IS NOT NULL")
	})
	for round := range 40 {
		name := fmt.Sprint("n", round/10) // New names, and names with a row.
		var granted atomic.Int64
		var lease atomic.Pointer[Lease]
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				l, err := c.TryAcquire(t.Context(), name)
				switch {
				case err == nil:
					granted.Add(1)
					lease.Store(l)
				case !errors.Is(err, ErrNotAcquired):
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, granted.Load())
		require.EqualValues(t, round%10+1, lease.Load().Token())
		require.NoError(t, lease.Load().Release(t.Context()))
	}
}

// A gate that is always shut refuses everything, and says that it is the gate.
func TestGate_AlwaysShutIsBusy(t *testing.T) {
	t.Parallel()
	c := altered(t, func(s *statements) {
		replaced(t, &s.acquire, "pg_try_advisory_xact_lock($4::bigint)", "$4::bigint IS NULL")
	})
	_, err := c.TryAcquire(t.Context(), "n")
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, held.Busy)
}

// An attempt may ask again after an unknown outcome: it finds its own grant, with the time that is left of it.
func TestAttempt_IsIdempotent(t *testing.T) {
	t.Parallel()
	c := altered(t, func(*statements) {})
	a, err := c.newAttempt("n")
	require.NoError(t, err)
	defer a.end()
	first, err := a.ask(t.Context())
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond)
	again, err := a.ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.Token(), again.Token())
	require.EqualValues(t, 1, again.Token(), "found, and renewed before it was handed out")
	require.NoError(t, again.Release(t.Context()))
	other, err := c.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, first.Token()+1, other.Token())
}

// A fence that is raised past the new token by somebody who bypasses the gate: the grant is not handed out, and the next
// token is above that fence.
func TestAcquire_OutrunByTheFenceIsNotHandedOut(t *testing.T) {
	t.Parallel()
	// The fence's row appears between the statement's snapshot and its raise: played by reading the fence too early.
	c := altered(t, func(s *statements) {
		replaced(t, &s.acquire, "greatest((SELECT token FROM seen), (SELECT token FROM fence), 0)", "greatest((SELECT token FROM seen), 0)")
	})
	first, err := c.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.NoError(t, first.Release(t.Context()))
	_, err = c.pool.Exec(t.Context(), "UPDATE "+schemaOf(c)+".job_fences SET token = 5")
	require.NoError(t, err)
	// Tokens 2 to 5 are not above the fence: each is given back, and the row's token rises until one is.
	var l *Lease
	require.Eventually(t, func() bool { l, err = c.TryAcquire(t.Context(), "n"); return err == nil }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 6, l.Token())
}

// Where the server does not tell who it is, tokens are a plain counter above the epoch that was set by hand.
func TestAcquire_PlainCounter(t *testing.T) {
	t.Parallel()
	c := altered(t, func(*statements) {})
	plain := newStatements(c.config.Schema, true)
	c.quick.Store(&plain)
	for want := range 3 {
		l, err := c.TryAcquire(t.Context(), "n")
		require.NoError(t, err)
		require.EqualValues(t, want+1, l.Token())
		require.NoError(t, l.Release(t.Context()))
	}
	_, err := c.pool.Exec(t.Context(), "INSERT INTO "+schemaOf(c)+".pglock_epochs (system_identifier, base) VALUES (0, 3)")
	require.NoError(t, err)
	l, err := c.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, 3<<32+1, l.Token())
}

func schemaOf(c *Client) string { return pgx.Identifier{c.config.Schema}.Sanitize() }

// The epoch rule, played with the rows that a restore into another cluster leaves behind.
func TestEpoch_RisesOverEveryKnownEpoch(t *testing.T) {
	t.Parallel()
	c := altered(t, func(*statements) {})
	exec := func(sql string) {
		t.Helper()
		_, err := c.pool.Exec(t.Context(), strings.ReplaceAll(sql, "%s", schemaOf(c)))
		require.NoError(t, err)
	}
	next := func(name string) int64 {
		t.Helper()
		l, err := c.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		return int64(l.Token())
	}
	require.EqualValues(t, 1, next("a"), "the first cluster starts at 1")
	require.EqualValues(t, 1, next("b"))

	// As after a restore into another cluster: our identifier is unknown.
	exec("UPDATE %s.pglock_epochs SET system_identifier = 42")
	require.EqualValues(t, 1024<<32+1, next("a"))
	require.EqualValues(t, 1024<<32+1, next("never seen"), "names that the rows do not know, too")

	// Restored elsewhere, used there with a failover, and brought back to this cluster.
	exec("INSERT INTO %s.pglock_epochs (system_identifier, base) VALUES (43, 2048)")
	exec("UPDATE %s.pglock_leases SET token = (2050::bigint << 32) + 7 WHERE name = 'a'")
	require.EqualValues(t, 3072<<32+1, next("b"), "our base is not the highest any more")
	require.EqualValues(t, 3072<<32+1, next("a"))

	// Another cluster with a base of its own that is the same: which of the two granted what cannot be told.
	exec("INSERT INTO %s.pglock_epochs (system_identifier, base) VALUES (44, 3072)")
	require.EqualValues(t, 4096<<32+1, next("b"))

	// Only the tokens came, without the epochs.
	exec("UPDATE %s.job_fences SET token = (6000::bigint << 32) + 7 WHERE name = 'a'")
	require.EqualValues(t, 6144<<32+1, next("a"))
	require.EqualValues(t, 6144<<32+1, next("b"))

	// A token of a later timeline of this very cluster: it is a former primary, and grants nothing under that name.
	exec("UPDATE %s.job_fences SET token = (6145::bigint << 32) + 7 WHERE name = 'a'")
	l, err := c.TryAcquire(t.Context(), "a")
	require.Nil(t, l)
	require.ErrorContains(t, err, "former primary")
	require.ErrorContains(t, err, "pglock epoch raise")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	l, err = c.Acquire(ctx, "a") // It waits: the pool may find the present primary.
	require.Nil(t, l)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "former primary")
	require.EqualValues(t, 6144<<32+2, next("b"), "of the others it does not know")
	_, err = c.RaiseEpoch(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7168<<32+1, next("a"))
}
