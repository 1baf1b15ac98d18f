package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// TestMigrate_KilledAtAnyMomentTheNextUpHeals: 20 random moments of a run, directly and through a pooler, up and down.
func TestMigrate_KilledAtAnyMomentTheNextUpHeals(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	server := pgtest.Private(t, nil)
	admin := connect(t, server.DSN())
	paths := [][]string{databaseEnv(server.DSN()), databaseEnv(pgtest.PgBouncer(t, server.DSN(), pgserver.BouncerOptions{PoolSize: 3}).DSN())}

	whole := time.Hour // how long a run takes
	for range 3 {
		execute(t, admin, "DROP SCHEMA IF EXISTS whole CASCADE")
		started := time.Now()
		mustRun(t, paths[0], "migrate", "up", "-schema", "whole")
		whole = min(whole, time.Since(started))
	}
	want := tablesOf(t, admin, "whole")

	left := map[string]int{}
	for i := range 20 {
		env, schema := paths[i%2], fmt.Sprintf("killed_%d", i)
		p := start(t, env, "migrate", "up", "-schema", schema)
		time.Sleep(time.Duration(random.Int64N(int64(whole)))) // the random moment, not a wait for something
		require.NoError(t, p.cmd.Process.Kill())
		code := p.wait()

		// Whatever it left is clean.
		_, version, stderr := pglockRun(t, env, "migrate", "version", "-schema", schema)
		require.NotContains(t, stderr, "dirty")
		left[fmt.Sprintf("exit %d, version %.1s", code, version)]++
		require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
		require.Equal(t, want, tablesOf(t, admin, schema))

		p = start(t, env, "migrate", "down", "-yes", "-schema", schema)
		time.Sleep(time.Duration(random.Int64N(int64(whole))))
		require.NoError(t, p.cmd.Process.Kill())
		p.wait()
		require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
		require.Equal(t, want, tablesOf(t, admin, schema))
	}
	t.Log("the kills left: ", left)
}

// TestMigrate_KilledInTheMiddleOfATransactionLeavesTheStateBefore: not a random moment but the worst one.
func TestMigrate_KilledInTheMiddleOfATransactionLeavesTheStateBefore(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	dsn := server.DSN()
	for i, through := range []string{dsn, pgtest.PgBouncer(t, dsn, pgserver.BouncerOptions{PoolSize: 3}).DSN()} {
		schema := fmt.Sprintf("middle_%d", i)
		env := databaseEnv(through)
		admin, blocker := connect(t, dsn), connect(t, dsn)
		mustRun(t, env, "migrate", "up", "-schema", schema, "-to", "1")
		before := tablesOf(t, admin, schema)

		// The process makes job_fences and waits, in its transaction, for the outcome of ours.
		execute(t, blocker, "BEGIN", "CREATE TABLE "+quote(schema, "job_fences")+" ()")
		p := start(t, env, "migrate", "up", "-schema", schema)
		inside := "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%job_fences%' AND pid <> pg_backend_pid())"
		require.Eventually(t, func() bool { return value[bool](t, admin, inside) }, 20*time.Second, 2*time.Millisecond)
		require.NoError(t, p.cmd.Process.Kill())
		require.Equal(t, -1, p.wait())
		execute(t, blocker, "ROLLBACK")

		code, version, stderr := pglockRun(t, env, "migrate", "version", "-schema", schema)
		require.Equal(t, 3, code)
		require.Equal(t, "1\n", version)
		require.NotContains(t, stderr, "dirty")
		require.Equal(t, before, tablesOf(t, admin, schema))
		require.Equal(t, newest, mustRun(t, env, "migrate", "up", "-schema", schema))
	}
}
