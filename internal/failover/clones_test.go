package failover_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// Two copies of one data folder, both promoted: same identifier, same timeline, same rows. No statement can tell them apart,
// so their tokens repeat, until an operator raises the epoch on the one that goes on.
func TestUndetectable_ClonesRepeatTokensUntilTheEpochIsRaised(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	last := grants(t, p.primary.DSN(), "n", 3)
	clone := pgtest.Standby(t, p.primary)
	p.part(t)
	require.NoError(t, p.primary.Kill())
	copyData(t, p.standby, clone)
	for _, server := range []*pgserver.Server{p.standby, clone} {
		require.NoError(t, server.Start())
		require.NoError(t, server.Promote(t.Context()))
	}
	identity := "SELECT system_identifier || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()"
	require.Equal(t, ask[string](t, p.standby.DSN(), identity), ask[string](t, clone.DSN(), identity))

	for _, name := range []string{"n", unseen} {
		require.Equal(t, lead+5, grants(t, p.standby.DSN(), name, 5))
		require.Equal(t, lead+2, grants(t, clone.DSN(), name, 2), "again")
	}
	old := take(t, client(t, p.standby.DSN(), silent), "n")
	require.Greater(t, old.Token(), last)
	require.NoError(t, p.standby.Kill())
	goesOn := pgtest.Pool(t, clone.DSN())
	require.NoError(t, write(t, goesOn, advance("n", old.Token())), "a holder of the other clone is not refused")

	live := take(t, client(t, clone.DSN(), lasting), "live")
	raised := raise(t, clone.DSN())
	require.EqualValues(t, 1024, raised.Base)
	require.EqualValues(t, 1, raised.Leases)
	require.Equal(t, pglock.LostRevoked, lost(t, live).Reason)
	require.ErrorIs(t, write(t, goesOn, advance("n", old.Token())), fencing.ErrStale)
	for _, name := range []string{"n", unseen, "live", "never granted here"} {
		require.Equal(t, 1025*lead+1, grants(t, clone.DSN(), name, 1), "the base, and one promotion")
	}
	require.Less(t, old.Token(), 1024*lead)
	survive(t, clone, 0)
}

// A standby that is promoted without having seen that another one was is a clone of that one.
func TestUndetectable_AStandbyThatNeverFollowedTheLastPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	late := pair{p.standby, pgtest.Standby(t, p.primary)}
	pair{p.primary, late.standby}.part(t)
	p.part(t)
	p.killAndPromote(t)
	missed := grants(t, p.standby.DSN(), "n", 3)
	late.killAndPromote(t)
	require.Equal(t, missed, grants(t, late.standby.DSN(), "n", 3), "repeated")

	raise(t, late.standby.DSN())
	above(t, late.standby.DSN(), "n", missed)
	survive(t, late.standby, missed)
}

// The same two standbys, with an archive of WAL between them: the history of the timeline is there, and the late one
// takes the next.
func TestUndetectable_IsDetectedWithAnArchive(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	p := pair{primary: pgtest.Private(t, a.settings())}
	install(t, p.primary.DSN())
	p.standby = pgtest.Standby(t, p.primary)
	late := pair{p.standby, pgtest.Standby(t, p.primary)}
	run(t, late.standby.DSN(), a.restore())
	require.NoError(t, late.standby.Restart()) // PostgreSQL 13 reads restore_command at the start only.
	pair{p.primary, late.standby}.part(t)
	p.part(t)
	p.killAndPromote(t)
	soon(t, func() bool { return a.has("00000002.history") })
	missed := grants(t, p.standby.DSN(), "n", 3)
	late.killAndPromote(t)
	require.Greater(t, above(t, late.standby.DSN(), "n", missed), 2*lead)
}

// A raise is a commit like any other: a failover can lose it, with the grants after it. Raising again is above those.
func TestUndetectable_ARaiseThatAFailoverLostIsRepeated(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	grants(t, p.primary.DSN(), "n", 3)
	p.part(t)
	require.EqualValues(t, 1024, raise(t, p.primary.DSN()).Base)
	missed := grants(t, p.primary.DSN(), "n", 3)
	require.Equal(t, 1024*lead+3, missed)
	p.killAndPromote(t)
	require.Equal(t, lead+1, grants(t, p.standby.DSN(), "n", 1), "below those that were lost")

	raise(t, p.standby.DSN())
	above(t, p.standby.DSN(), "n", missed)
}

// raise is what `pglock epoch raise` does.
func raise(t testing.TB, dsn string) pglock.Raise {
	t.Helper()
	raised, err := client(t, dsn, lasting).RaiseEpoch(t.Context())
	require.NoError(t, err)
	return raised
}

// copyData puts a copy of the data of one server in place of that of another one, and stops both.
func copyData(t testing.TB, from, into *pgserver.Server) {
	t.Helper()
	source, target := dataOf(t, from), dataOf(t, into)
	require.NoError(t, from.Stop(pgserver.Fast))
	require.NoError(t, into.Stop(pgserver.Fast))
	entries, err := os.ReadDir(target)
	require.NoError(t, err)
	for _, entry := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(target, entry.Name())))
	}
	require.NoError(t, os.CopyFS(target, os.DirFS(source)))
	own(t, target)
}
