package fieldcases_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// carbonite 45: transaction ids restart lower after a dump is loaded into another server, sequences are not carried by logical
// replication, and an asynchronous standby misses the last increments. A token that comes twice lets a stale holder through.
//
// Each test counts to 100, moves the database, and goes on: every later token is above every one handed out before, those
// that the move has lost included, and a writer with an old token is refused.

var steady = pglock.Config{TTL: time.Minute}

// hundred has a hundred grants of "n" and returns the last token.
func (p place) hundred(t *testing.T) fencing.Token {
	t.Helper()
	last := grants(t, p.client(t, steady), "n", 100)
	require.EqualValues(t, 100, last)
	return last
}

// above requires that the next tokens of a name are above one handed out before, and that this one is refused now.
func (p place) above(t *testing.T, name string, old fencing.Token) fencing.Token {
	t.Helper()
	lease := take(t, p.client(t, steady), name)
	require.Greater(t, lease.Token(), old, name)
	err := pgx.BeginFunc(t.Context(), p.admin, func(tx pgx.Tx) error { return lease.Fence().AdvanceTx(t.Context(), tx, old) })
	require.ErrorIs(t, err, fencing.ErrStale, name)
	require.NoError(t, pgx.BeginFunc(t.Context(), p.admin, func(tx pgx.Tx) error { return lease.ShareTx(t.Context(), tx) }))
	require.NoError(t, lease.Release(t.Context()))
	return grants(t, p.client(t, steady), name, 2)
}

func TestCase06_TokensRiseAfterALostRow(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"pglock_leases", "job_fences"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			p := install(t)
			last := p.hundred(t)
			p.exec(t, "DELETE FROM %s."+table)
			require.EqualValues(t, 103, p.above(t, "n", last))
			p.exec(t, "TRUNCATE %s."+table)
			require.EqualValues(t, 106, p.above(t, "n", 103))
		})
	}
}

func TestCase06_TokensRiseAfterTheRowOfALiveLeaseIsDeleted(t *testing.T) {
	t.Parallel()
	p := install(t)
	p.hundred(t)
	lease := take(t, p.client(t, pglock.Config{TTL: 5 * time.Second, RenewInterval: 50 * time.Millisecond}), "n")
	p.exec(t, "DELETE FROM %s.pglock_leases")
	next := take(t, p.client(t, steady), "n")
	require.EqualValues(t, 102, next.Token())
	require.ErrorIs(t, lost(t, lease), pglock.ErrLost)
	require.NoError(t, next.Err())
}

// After a restore the timeline is 1 again while tokens are higher, so the failover that follows is a case of its own.
func TestCase06_TokensRiseAfterDumpAndRestoreAndThenALossyFailover(t *testing.T) {
	t.Parallel()
	from := installOn(t, pgtest.Private(t, nil).DSN())
	last := from.hundred(t)
	inUse := take(t, from.client(t, pglock.Config{TTL: 2 * time.Second}), "held at the time of the dump")
	file := dump(t, from.dsn)
	// The old server goes on for a while, as it does when nobody stops the writers first.
	last = max(last, grants(t, from.client(t, steady), "n", 20))
	require.EqualValues(t, 120, last)
	unseen := grants(t, from.client(t, steady), "not in the dump", 7)

	t.Run("the standby knows the new epoch", func(t *testing.T) {
		t.Parallel()
		primary := pgtest.Private(t, nil)
		p := at(t, primary.DSN(), "public")
		restore(t, p.dsn, file)
		high := p.above(t, "n", last)
		p.above(t, "not in the dump", unseen)
		lease := takeSoon(t, p.client(t, steady), inUse.Name()) // When the TTL that came with the dump has passed.
		require.Greater(t, lease.Token(), inUse.Token())
		p.survive(t, primary, high)
	})

	t.Run("the standby misses the new epoch", func(t *testing.T) {
		t.Parallel()
		primary := pgtest.Private(t, nil)
		p := at(t, primary.DSN(), "public")
		restore(t, p.dsn, file)
		p.survive(t, primary, last)
	})
}

// A server that was installed and used before the dump came: its own tokens count as well.
func TestCase06_TokensRiseAfterARestoreOverAnInstallation(t *testing.T) {
	t.Parallel()
	from, into := installOn(t, pgtest.Private(t, nil).DSN()), installOn(t, pgtest.Private(t, nil).DSN())
	last := from.hundred(t)
	live := into.client(t, steady) // It stays open.
	grants(t, live, "n", 3)
	restore(t, into.dsn, dump(t, from.dsn))
	require.Greater(t, grants(t, live, "n", 1), last)
	high := into.above(t, "n", last)

	// And back again, to a server that has gone on meanwhile.
	missed := grants(t, from.client(t, steady), "n", 5)
	restore(t, from.dsn, dump(t, into.dsn))
	from.above(t, "n", max(high, missed))
}

func TestCase06_TokensRiseAfterALogicalCutover(t *testing.T) {
	t.Parallel()
	logical := map[string]string{"wal_level": "logical"}
	from := installOn(t, pgtest.Private(t, logical).DSN())
	last := from.hundred(t)
	into := at(t, pgtest.Private(t, logical).DSN(), "public")
	restore(t, into.dsn, dump(t, from.dsn, "--schema-only"))
	replicate(t, from, into)
	last = max(last, grants(t, from.client(t, steady), "n", 5))
	soon(t, func() bool {
		return value[int](t, into, "SELECT count(*) FROM %s.pglock_leases WHERE name = 'n' AND token = $1 AND expires_at IS NULL", last) == 1
	}, "the changes arrive")
	into.exec(t, "ALTER SUBSCRIPTION move DISABLE")
	soon(t, func() bool {
		return value[int](t, from, "SELECT count(*) FROM pg_replication_slots WHERE active") == 0
	})

	// The last grants do not make it.
	missed := grants(t, from.client(t, steady), "n", 5)
	unseen := grants(t, from.client(t, steady), "not replicated", 5)
	high := into.above(t, "n", missed)
	into.above(t, "not replicated", unseen)

	// And back: the first server takes the tables of the second.
	into.exec(t, "ALTER SUBSCRIPTION move SET (slot_name = NONE)")
	into.exec(t, "DROP SUBSCRIPTION move")
	from.exec(t, "DROP PUBLICATION move")
	from.exec(t, "TRUNCATE %s.pglock_leases, %s.job_fences, %s.pglock_epochs, %s.pglock_schema_migrations")
	replicate(t, into, from)
	soon(t, func() bool {
		return value[int](t, from, "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == 0 &&
			value[int](t, from, "SELECT count(*) FROM %s.pglock_leases WHERE name = 'n' AND token = $1 AND expires_at IS NULL", high) == 1
	})
	from.exec(t, "ALTER SUBSCRIPTION move DISABLE")
	high = max(high, grants(t, into.client(t, steady), "n", 5))
	from.above(t, "n", high)
}

// replicate has all tables of one place flow into another, and waits for the first copy.
func replicate(t *testing.T, from, into place) {
	t.Helper()
	from.exec(t, "CREATE PUBLICATION move FOR ALL TABLES")
	into.exec(t, fmt.Sprintf("CREATE SUBSCRIPTION move CONNECTION '%s' PUBLICATION move", strings.ReplaceAll(from.dsn, "'", "''")))
	t.Cleanup(func() { // Else the slot keeps the servers busy until they are killed.
		_, _ = into.admin.Exec(context.Background(), "ALTER SUBSCRIPTION move DISABLE")
	})
	soon(t, func() bool {
		return value[bool](t, into, "SELECT count(*) > 3 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")
	}, "the tables are copied")
}

// dump returns the file that pg_dump makes of a database.
func dump(t *testing.T, dsn string, options ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	run(t, "pg_dump", append([]string{"--format=custom", "--file=" + file, "--dbname=" + dsn}, options...)...)
	return file
}

// restore loads it, in place of what is there.
func restore(t *testing.T, dsn, file string) {
	t.Helper()
	run(t, "pg_restore", "--clean", "--if-exists", "--exit-on-error", "--dbname="+dsn, file)
}

// run runs one of PostgreSQL's programs for clients.
func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	program := filepath.Join(programsOf(t), name)
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath(name); err != nil {
			pgtest.Skip(t, name+" is not installed")
		}
	}
	output, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, output)
}
