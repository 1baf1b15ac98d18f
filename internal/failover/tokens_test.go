package failover_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// Three failovers, each losing the last grants, over two standbys made beforehand and one made later.
func TestTokens_RiseThroughFailoversInARow(t *testing.T) {
	t.Parallel()
	first := newPair(t)
	third := pgtest.Standby(t, first.primary)
	last := grants(t, first.primary.DSN(), "n", 3)
	pair{first.primary, third}.part(t)
	first.part(t)
	last = first.survive(t, last)
	require.Greater(t, last, lead)

	follow(t, third, first.standby) // It sees the new timeline, which is enough.
	second := pair{first.standby, third}
	second.part(t)
	last = second.survive(t, last)
	require.Greater(t, last, 2*lead)
	_, last = survive(t, third, last)
	require.Greater(t, last, 3*lead)
}

// A backup and the archive, restored to a point before the last grants; then a failover that loses more.
func TestTokens_RiseAfterAPointInTimeRestore(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	primary := pgtest.Private(t, a.settings())
	install(t, primary.DSN())
	last := grants(t, primary.DSN(), "n", 3)
	inUse := take(t, client(t, primary.DSN(), silent), "held then")
	backup := a.backup(t, primary)
	last = max(last, grants(t, primary.DSN(), "n", 3)) // In the archive alone.
	run(t, primary.DSN(), "SELECT pg_create_restore_point('"+restorePoint+"')")
	missed, other := grants(t, primary.DSN(), "n", 5), grants(t, primary.DSN(), unseen, 5)
	a.finish(t, primary)
	require.NoError(t, primary.Kill())

	restored(t, backup)
	require.EqualValues(t, last, ask[int64](t, backup.DSN(), "SELECT token FROM pglock_leases WHERE name = 'n'"), "the archive was read")
	require.Zero(t, ask[int](t, backup.DSN(), "SELECT count(*) FROM pglock_leases WHERE name = $1", unseen), "and no further")
	require.Equal(t, inUse.Token(), held(t, client(t, backup.DSN(), lasting), inUse.Name()).Token, "a lease of then is in the way until its TTL ends")
	above(t, backup.DSN(), unseen, other)
	high := above(t, backup.DSN(), "n", missed)
	survive(t, backup, high)
}

// A restore of the same backup for the second time finds in the archive that its timeline was used.
func TestTokens_RiseWhenABackupIsRestoredTwice(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	primary := pgtest.Private(t, a.settings())
	install(t, primary.DSN())
	one, two := a.backup(t, primary), a.backup(t, primary)
	run(t, primary.DSN(), "SELECT pg_create_restore_point('"+restorePoint+"')")
	last := grants(t, primary.DSN(), "n", 3)
	a.finish(t, primary)
	require.NoError(t, primary.Kill())
	for i, backup := range []*pgserver.Server{one, two} {
		restored(t, backup)
		last = above(t, backup.DSN(), "n", last)
		require.Greater(t, last, fencing.Token(i+1)*lead)
		soon(t, func() bool { return a.has(fmt.Sprintf("%08X.history", i+2)) })
	}
}

// A cut-over by logical replication that lost its last changes; then a failover of the new cluster. Case 6 of
// internal/fieldcases has the cut-over alone, and dump and restore with a failover.
func TestTokens_RiseAfterALogicalCutoverAndThenAFailover(t *testing.T) {
	t.Parallel()
	logical := map[string]string{"wal_level": "logical"}
	from, into := pgtest.Private(t, logical), pgtest.Private(t, logical)
	install(t, from.DSN())
	install(t, into.DSN())
	run(t, into.DSN(), "TRUNCATE pglock_leases, job_fences, pglock_epochs, pglock_schema_migrations")
	grants(t, from.DSN(), "n", 3)
	run(t, from.DSN(), "CREATE PUBLICATION move FOR ALL TABLES")
	run(t, into.DSN(), "CREATE SUBSCRIPTION move CONNECTION '"+conninfo(t, from.DSN())+" dbname=postgres' PUBLICATION move")
	last := grants(t, from.DSN(), "n", 3)
	yes(t, into.DSN(), "SELECT count(*) = 1 FROM pglock_leases WHERE name = 'n' AND token = $1 AND expires_at IS NULL", last)
	yes(t, into.DSN(), "SELECT count(*) > 3 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")
	run(t, into.DSN(), "ALTER SUBSCRIPTION move DISABLE", "ALTER SUBSCRIPTION move SET (slot_name = NONE)", "DROP SUBSCRIPTION move")
	yes(t, from.DSN(), "SELECT count(*) = 0 FROM pg_replication_slots WHERE active")
	missed, other := grants(t, from.DSN(), "n", 5), grants(t, from.DSN(), unseen, 5)
	require.NoError(t, from.Kill())

	// The standby has not seen that the new cluster has granted anything.
	p := pair{into, pgtest.Standby(t, into)}
	p.part(t)
	above(t, into.DSN(), unseen, other)
	high := above(t, into.DSN(), "n", missed)
	last = p.survive(t, high)
	survive(t, p.standby, last)
}

// An upgrade in place makes a new cluster, on timeline 1, of the old one's rows. Here both are of one version, which
// pg_upgrade allows.
func TestTokens_RiseAfterAnUpgradeAndThenAFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.part(t)
	last := p.survive(t, 0) // So that the tokens are of an epoch that the new cluster does not have.
	before, after := p.standby, pgtest.Private(t, nil)
	identity := "SELECT system_identifier FROM pg_control_system()"
	require.NotEqual(t, ask[int64](t, before.DSN(), identity), ask[int64](t, after.DSN(), identity))
	upgrade(t, before, after)
	require.NoError(t, after.Start())
	require.Equal(t, "00000001", ask[string](t, after.DSN(), "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"))

	p = pair{after, pgtest.Standby(t, after)}
	p.part(t)
	last = p.survive(t, last)
	survive(t, p.standby, last)
}

// upgrade moves the data of one server into another, and stops both.
func upgrade(t testing.TB, from, into *pgserver.Server) {
	t.Helper()
	_, programs, _ := strings.Cut(into.Source(), " in ")
	program := filepath.Join(programs, "pg_upgrade")
	if _, err := os.Stat(program); err != nil {
		pgtest.Skip(t, "pg_upgrade is not installed beside "+programs)
	}
	old, fresh := dataOf(t, from), dataOf(t, into)
	for _, server := range []*pgserver.Server{from, into} {
		require.NoError(t, server.Stop(pgserver.Fast))
	}
	dir := folderOf(t, old)
	cmd := exec.CommandContext(t.Context(), program, "--old-datadir", old, "--new-datadir", fresh, "--old-bindir", programs,
		"--new-bindir", programs, "--socketdir", dir, "--username", "postgres", "--old-port", "50432", "--new-port", "50433")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = asOwner(t, old)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// An archive is a folder that servers copy their WAL to.
type archive struct{ dir string }

// restorePoint is where a restore ends.
const restorePoint = "before the last grants"

func newArchive(t testing.TB) archive {
	t.Helper()
	return archive{folder(t)}
}

func (a archive) settings() map[string]string {
	return map[string]string{
		"archive_mode":    "on",
		"archive_command": fmt.Sprintf(`cp "%%p" "%s/%%f"`, a.dir),
	}
}

// restore has a standby read the archive as well.
func (a archive) restore() string {
	return fmt.Sprintf(`ALTER SYSTEM SET restore_command = 'cp "%s/%%f" "%%p"'`, a.dir)
}

// backup is a copy of a server's data, stopped. When it is started it reads the archive up to the restore point and becomes
// a primary.
func (a archive) backup(t testing.TB, primary *pgserver.Server) *pgserver.Server {
	t.Helper()
	backup := pgtest.Standby(t, primary)
	data := dataOf(t, backup)
	run(t, backup.DSN(), "ALTER SYSTEM RESET primary_conninfo", a.restore(),
		"ALTER SYSTEM SET recovery_target_name = '"+restorePoint+"'",
		"ALTER SYSTEM SET recovery_target_action = 'promote'",
		"COPY (SELECT) TO '"+data+"/recovery.signal'")
	require.NoError(t, backup.Stop(pgserver.Fast))
	require.NoError(t, os.Remove(filepath.Join(data, "standby.signal")))
	return backup
}

// finish has the archive hold all that the server has written.
func (a archive) finish(t testing.TB, server *pgserver.Server) {
	t.Helper()
	segment := ask[string](t, server.DSN(), "SELECT pg_walfile_name(pg_switch_wal())")
	yes(t, server.DSN(), "SELECT last_archived_wal >= $1 FROM pg_stat_archiver", segment)
	require.True(t, a.has(segment))
}

func (a archive) has(file string) bool {
	_, err := os.Stat(filepath.Join(a.dir, file))
	return err == nil
}

// restored starts a backup and waits until it is a primary.
func restored(t testing.TB, backup *pgserver.Server) {
	t.Helper()
	require.NoError(t, backup.Start())
	yes(t, backup.DSN(), "SELECT NOT pg_is_in_recovery()")
	run(t, backup.DSN(), "ALTER SYSTEM RESET ALL") // Else a standby of it looks for the restore point as well.
}
