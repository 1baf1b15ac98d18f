//go:build unix

package rolling

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/testproc"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	name = "rolling"
	ttl  = 6 * time.Second
)

// A version is one that was built.
type version struct {
	label  string
	holder string // the program of package testproc
	pglock string // the command
}

// buildIn builds the programs of the module in a folder.
func buildIn(t *testing.T, label, module string) version {
	t.Helper()
	bin := t.TempDir()
	v := version{label: label, holder: filepath.Join(bin, "holder"), pglock: filepath.Join(bin, "pglock")}
	for program, from := range map[string]string{v.holder: "./internal/testproc/holder", v.pglock: "./cmd/pglock"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, from)
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return v
}

// previous is the version to upgrade from. It is unpacked, and not checked out: the repository stays as it is.
func previous(t *testing.T) (version, bool) {
	t.Helper()
	commit := os.Getenv("LEASEHOLD_PREVIOUS")
	if commit == "" {
		out, err := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--abbrev=0").Output()
		if err != nil {
			return version{}, false
		}
		commit = strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	archive := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", commit)
	archive.Dir = "../.."
	tar, err := archive.Output()
	require.NoError(t, err, "git archive %s", commit)
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(tar)
	out, err := unpack.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("the previous version is %s", commit)
	return buildIn(t, "previous", dir), true
}

// start starts a process of a version.
func (v version) start(t *testing.T, dsn, label string) *testproc.Process {
	t.Helper()
	return testproc.Start(t, v.holder, testproc.Setup{
		DSN: dsn, Label: v.label + label, Name: name, TTL: ttl, RenewInterval: 300 * time.Millisecond, RequestTimeout: 4 * time.Second,
		Margin: 500 * time.Millisecond, PollInterval: 50 * time.Millisecond,
	})
}

// migrate brings the tables to what the version wants.
func (v version) migrate(t *testing.T, dsn string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), v.pglock, "migrate", "up", "-database", dsn).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestRolling_TwoVersionsShareOneSchema is a rolling upgrade, one step after the other.
func TestRolling_TwoVersionsShareOneSchema(t *testing.T) {
	t.Parallel()
	present := buildIn(t, "present", "../..")
	before, found := previous(t)
	if !found {
		t.Log("no tag and no LEASEHOLD_PREVIOUS: the present version twice")
		before = present
		before.label = "previous"
	}
	server := pgtest.Private(t, nil)
	dsn := server.DSN()
	admin := pgtest.Pool(t, dsn)
	before.migrate(t, dsn)
	_, err := admin.Exec(t.Context(), testproc.Tables)
	require.NoError(t, err)
	old, fresh := before.start(t, dsn, " one"), present.start(t, dsn, " one")

	// The new program comes first, on the tables of the old one.
	granted := old.Do(t, testproc.Try, testproc.Acquired)
	held := fresh.Do(t, testproc.Try, testproc.Held)
	require.Equal(t, granted.Token, held.Token)
	require.Equal(t, "previous one", held.Holder)
	old.Do(t, testproc.Write, testproc.Written)

	// The migration comes while a lease of the old version is held, and renewed.
	present.migrate(t, dsn)
	outlive(t, admin)
	require.Equal(t, granted.Token, fresh.Do(t, testproc.Try, testproc.Held).Token, "renewed under the same token")
	old.Do(t, testproc.Write, testproc.Written)
	token := granted.Token

	// Hand-over, to and fro, to one that waits.
	waiters := []*testproc.Process{fresh, old, present.start(t, dsn, " two"), before.start(t, dsn, " two")}
	holder := old
	for i := range 12 {
		next := waiters[i%len(waiters)]
		if next == holder {
			continue
		}
		next.Tell(t, testproc.Acquire)
		holder.Do(t, testproc.Release, testproc.Released)
		e := next.Expect(t, testproc.Acquired)
		require.Greater(t, e.Token, token)
		require.False(t, e.TookOver)
		token, holder = e.Token, next
		next.Do(t, testproc.Write, testproc.Written)
	}
	holder.Do(t, testproc.Release, testproc.Released)

	// Take-over in both directions, and the late write of the one that was paused.
	for _, pair := range [][2]*testproc.Process{{old, fresh}, {fresh, old}} {
		paused, other := pair[0], pair[1]
		first := paused.Do(t, testproc.Try, testproc.Acquired)
		require.Greater(t, first.Token, token)
		paused.Freeze(t)
		second := other.Do(t, testproc.Acquire, testproc.Acquired)
		require.Greater(t, second.Token, first.Token)
		require.True(t, second.TookOver)
		other.Do(t, testproc.Write, testproc.Written)
		paused.Wake(t)
		paused.Expect(t, testproc.Lost)
		refused := paused.Do(t, testproc.Write, testproc.Refused)
		require.Equal(t, second.Token, refused.Fence)
		other.Do(t, testproc.Release, testproc.Released)
		token = second.Token
	}
	var late int
	require.NoError(t, admin.QueryRow(t.Context(), `
		SELECT count(*) FROM (SELECT token < max(token) OVER (ORDER BY written_at) AS late FROM writes) AS w WHERE late`).Scan(&late))
	require.Zero(t, late, "writes are in the order of their tokens")
}

// outlive waits until the lease has been held for longer than its TTL.
func outlive(t *testing.T, admin *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var yes bool
		err := admin.QueryRow(t.Context(), "SELECT clock_timestamp() > acquired_at + make_interval(secs => $2) FROM pglock_leases WHERE name = $1",
			name, (ttl + time.Second).Seconds()).Scan(&yes)
		return err == nil && yes
	}, time.Minute, 50*time.Millisecond)
}
