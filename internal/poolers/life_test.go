package poolers

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// inEachMode runs a test in each mode that works in transaction mode, on a place of its own.
func inEachMode(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	for _, k := range transactionKinds(t) {
		for _, mode := range allModes {
			if k.works(mode) {
				t.Run(k.name+"/"+mode.String(), func(t *testing.T) {
					t.Parallel()
					test(t, install(t, mode, k.settings))
				})
			}
		}
	}
}

// A lease's whole life, and the fence's, where every transaction may be in another session.
func TestTransactionMode_WholeLifeOfALease(t *testing.T) {
	t.Parallel()
	inEachMode(t, wholeLife)
}

// Behind a pooler in session mode a client has a session of its own, and every mode works.
func TestSessionMode_WholeLifeOfALease(t *testing.T) {
	t.Parallel()
	for _, mode := range allModes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			wholeLife(t, install(t, mode, map[string]string{"pool_mode": "session", "default_pool_size": "50"}))
		})
	}
}

func wholeLife(t *testing.T, p place) {
	t.Helper()
	p.exec(t, "CREATE TABLE %s.written (token bigint NOT NULL)")
	kept := take(t, p.client(t, lasting), "kept")
	waited := make(chan *pglock.Lease, 1)
	waiter := p.client(t, lasting)
	go func() {
		lease, err := waiter.Acquire(t.Context(), "kept")
		if err == nil {
			waited <- lease
		}
		close(waited)
	}()

	// Take-over: as if the first holder had been paused for longer than its TTL.
	old, fresh := p.client(t, lasting), p.client(t, lasting)
	first := take(t, old, "n")
	require.NoError(t, p.write(t, first))
	p.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE name = 'n'")
	second := takeSoon(t, fresh, "n") // Unless a renewal was on its way: then it has to wait for that one's end.
	require.Greater(t, second.Token(), first.Token())
	require.ErrorIs(t, p.write(t, first), fencing.ErrStale)
	require.NoError(t, p.write(t, second))
	loss := lost(t, first)
	require.Contains(t, []pglock.LostReason{pglock.LostTakenOver, pglock.LostExpired}, loss.Reason)
	require.ErrorIs(t, first.Release(t.Context()), pglock.ErrLost)
	require.NoError(t, second.Err())
	require.NoError(t, second.Release(t.Context()))
	require.Equal(t, []int64{int64(first.Token()), int64(second.Token())},
		value[[]int64](t, p, "SELECT array_agg(DISTINCT token ORDER BY token) FROM %s.written"), "nothing of the refused writes")

	p.outlives(t, kept, lasting.TTL)
	require.NoError(t, kept.Release(t.Context()))
	next, ok := <-waited
	require.True(t, ok)
	require.Greater(t, next.Token(), kept.Token())
	require.NoError(t, next.Release(t.Context()))
}

// write passes the lease's fence in each form and writes.
func (p place) write(t testing.TB, lease *pglock.Lease) error {
	t.Helper()
	pool := p.pool(t)
	defer pool.Close()
	insert := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, p.sql("INSERT INTO %s.written VALUES ($1)"), int64(lease.Token()))
		return err
	}
	fence := lease.Fence()
	passes := []func(context.Context, pgx.Tx) error{
		lease.AdvanceTx,
		func(ctx context.Context, tx pgx.Tx) error { return fence.ShareTx(ctx, tx, lease.Token()) },
	}
	var first error
	for i, pass := range passes {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if err := pass(t.Context(), tx); err != nil {
				return err
			}
			return insert(t.Context(), tx)
		})
		if i == 0 {
			first = err
		}
		require.Equal(t, first == nil, err == nil, "all forms agree: %v", err)
	}
	err := fence.Run(t.Context(), pool, lease.Token(), fencing.RunOptions{}, insert)
	require.Equal(t, first == nil, err == nil, "all forms agree: %v", err)
	return first
}

// Many clients share few sessions. Each holder believes in its lease, nobody else has the name, and nothing of it stays
// behind in a session.
func TestTransactionMode_ManyClientsOnFewSessions(t *testing.T) {
	t.Parallel()
	const clients, cycles = 12, 4
	inEachMode(t, func(t *testing.T, p place) {
		p.exec(t, "CREATE TABLE %s.inside (name text PRIMARY KEY)")
		var group sync.WaitGroup
		pool := p.pool(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		for i := range clients {
			c := p.client(t, lasting)
			name := fmt.Sprint("n", i%3)
			group.Go(func() {
				for range cycles {
					err := c.Do(ctx, name, func(ctx context.Context, lease *pglock.Lease) error {
						// Two holders at once would meet in the primary key.
						if _, err := pool.Exec(ctx, p.sql("INSERT INTO %s.inside VALUES ($1)"), name); err != nil {
							return err
						}
						err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return lease.AdvanceTx(ctx, tx) })
						if err != nil {
							return err
						}
						_, err = pool.Exec(ctx, p.sql("DELETE FROM %s.inside WHERE name = $1"), name)
						return err
					})
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
				}
			})
		}
		group.Wait()
		require.GreaterOrEqual(t, value[int64](t, p, "SELECT sum(token)::bigint FROM %s.pglock_leases"), int64(clients*cycles),
			"each grant has a token of its own")
		// A session ends its statement a moment before it is seen to be idle.
		soon(t, func() bool {
			return value[int](t, p, `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE locktype = 'advisory' AND state = 'idle'`) == 0
		}, "an advisory lock stays in a session")
	})
}

// What a transaction declared for a guarded table is not there for the next one in the same session.
func TestTransactionMode_GuardForgetsTheTransactionBefore(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, p place) {
		p.exec(t, "CREATE TABLE %s.guarded (token bigint NOT NULL)")
		lease := take(t, p.client(t, lasting), "n")
		require.NoError(t, pgx.BeginFunc(t.Context(), p.admin, func(tx pgx.Tx) error {
			return lease.Fence().GuardTx(t.Context(), tx, p.sql("%s.guarded"))
		}))
		pool := p.pool(t)
		insert := p.sql("INSERT INTO %s.guarded VALUES (1)")
		sessions := map[int]bool{}
		for range 4 * poolSize {
			require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if err := lease.AdvanceTx(t.Context(), tx); err != nil {
					return err
				}
				var pid int
				if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
					return err
				}
				sessions[pid] = true
				_, err := tx.Exec(t.Context(), insert)
				return err
			}))
			_, err := pool.Exec(t.Context(), insert)
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, "LH001", pg.Code)
		}
		require.LessOrEqual(t, len(sessions), poolSize, "the sessions were used again")
	})
}

// A restart of the pooler breaks every connection. A lease outlives it, and a waiter goes on waiting.
func TestTransactionMode_RestartOfThePoolerKeepsTheLease(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, p place) {
		holder, waiter := p.client(t, lasting), p.client(t, lasting)
		lease := take(t, holder, "n")
		require.NoError(t, waiter.Check(t.Context()))
		granted := make(chan *pglock.Lease, 1)
		go func() {
			defer close(granted)
			if next, err := waiter.Acquire(t.Context(), "n"); err == nil {
				granted <- next
			}
		}()
		for range 3 {
			require.NoError(t, p.pooler.Restart(t.Context()))
			seen := value[string](t, p, "SELECT renewed_at::text FROM %s.pglock_leases WHERE name = 'n'")
			soon(t, func() bool {
				return value[string](t, p, "SELECT renewed_at::text FROM %s.pglock_leases WHERE name = 'n'") != seen
			}, "no renewal after the restart")
		}
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
		next, ok := <-granted
		require.True(t, ok)
		require.NoError(t, next.Release(t.Context()))
	})
}
