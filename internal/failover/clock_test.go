package failover_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// The database's clock decides, and a failover may bring another one. A new primary that is ahead has leases expire early,
// one that is behind has them last longer; the fence looks at no clock.

func TestClock_NewPrimaryIsAnHourAhead(t *testing.T) {
	t.Parallel()
	p := newSkewedPair(t, time.Hour)
	live, dead, long := take(t, client(t, p.dsn(t), lasting), "live"), take(t, client(t, p.dsn(t), brief), "dead"),
		take(t, client(t, p.dsn(t), silent), "long")
	p.failOver(t, long)

	// Less than an hour of TTL is over at once, for a holder that renews as for one that does not know.
	require.Equal(t, pglock.LostExpired, lost(t, live).Reason)
	require.NoError(t, dead.Err(), "it believes to hold the lease")
	pool := pgtest.Pool(t, p.dsn(t))
	require.NoError(t, write(t, pool, dead.ShareTx), "which harms nobody as long as nobody else has it")
	c := client(t, p.dsn(t), lasting)
	for _, old := range []*pglock.Lease{live, dead} {
		next := take(t, c, old.Name())
		require.Greater(t, next.Token(), old.Token())
		require.ErrorIs(t, write(t, pool, old.AdvanceTx), fencing.ErrStale)
		require.NoError(t, write(t, pool, next.ShareTx))
		yes(t, p.standby, "SELECT renewed_at > acquired_at FROM pglock_leases WHERE name = $1", old.Name())
		require.NoError(t, next.Err(), "the clock is as good as another from here on")
	}

	// More than that is shortened.
	left := held(t, c, "long").TimeLeft
	require.Greater(t, left, 30*time.Minute)
	require.Less(t, left, 70*time.Minute)
	require.NoError(t, write(t, pool, long.ShareTx))
}

func TestClock_NewPrimaryIsAnHourBehind(t *testing.T) {
	t.Parallel()
	p := newSkewedPair(t, -time.Hour)
	live, dead := take(t, client(t, p.dsn(t), lasting), "live"), take(t, client(t, p.dsn(t), brief), "dead")
	p.failOver(t, dead)

	// A holder that renews has its lease back on the TTL with the first renewal.
	c := client(t, p.dsn(t), lasting)
	soon(t, func() bool { return held(t, c, "live").TimeLeft <= lasting.TTL })
	require.NoError(t, live.Err())
	pool := pgtest.Pool(t, p.dsn(t))
	require.NoError(t, write(t, pool, live.ShareTx))

	// A dead one is in the way for an hour more than its TTL, unless an operator frees it.
	require.Greater(t, held(t, c, "dead").TimeLeft, 50*time.Minute)
	_, err := c.RaiseEpoch(t.Context())
	require.NoError(t, err)
	require.Equal(t, pglock.LostRevoked, lost(t, live).Reason)
	for _, old := range []*pglock.Lease{live, dead} {
		next := take(t, c, old.Name())
		require.Greater(t, next.Token(), old.Token())
		require.ErrorIs(t, write(t, pool, old.AdvanceTx), fencing.ErrStale)
		require.NoError(t, write(t, pool, next.ShareTx))
	}
}

// brief is a holder that is not renewed while a test runs and believes in its lease for as long.
var brief = pglock.Config{Label: "brief", TTL: 10 * time.Minute, RenewInterval: 9 * time.Minute, RequestTimeout: 3 * time.Second}

// A skewedPair is a pair in another process, because the environment says which programs a server is started from, and the
// standby's are to run with a clock of their own.
type skewedPair struct {
	primary, standby string // connection strings
	kill             func()
}

// envClock has the test binary run a skewed pair.
const envClock = "LEASEHOLD_FAILOVER_CLOCK"

func newSkewedPair(t testing.TB, skew time.Duration) skewedPair {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NoError(t, err)
	if len(libraries) == 0 {
		pgtest.Skip(t, "libfaketime is not installed")
	}
	_, programs, found := strings.Cut(pgtest.Private(t, nil).Source(), " in ")
	if !found {
		pgtest.Skip(t, "PostgreSQL's programs are needed")
	}
	dir := folder(t)
	clock := fmt.Sprintf("[ -f \"$2/standby.signal\" ] && export LD_PRELOAD=%s FAKETIME=%+ds DONT_FAKE_MONOTONIC=1\n",
		libraries[0], int(skew.Seconds()))
	for name, before := range map[string]string{"initdb": "", "pg_basebackup": "", "postgres": clock} {
		script := fmt.Sprintf("#!/bin/sh\n%sexec %s/%s \"$@\"\n", before, programs, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envClock+"=1", "LEASEHOLD_PG_BIN="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // It closes its servers.
		require.NoError(t, cmd.Wait(), &stderr)
	})
	lines := bufio.NewScanner(stdout)
	line := func() string {
		require.True(t, lines.Scan(), &stderr)
		return lines.Text()
	}
	p := skewedPair{primary: line(), standby: line()}
	p.kill = func() {
		_, err := fmt.Fprintln(stdin, "kill")
		require.NoError(t, err)
		require.Equal(t, "killed", line())
	}
	install(t, p.primary)
	beside := time.Until(ask[time.Time](t, p.standby, "SELECT clock_timestamp()"))
	require.InDelta(t, skew.Minutes(), beside.Minutes(), 5, "the standby's clock is another")
	return p
}

// roleClock is the other process. It ends with its standard input.
func roleClock() int {
	ctx := context.Background()
	primary, err := pgserver.Start(ctx, pgserver.Options{Private: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = primary.Close() }()
	standby, err := primary.Standby(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = standby.Close() }()
	fmt.Println(primary.DSN())
	fmt.Println(standby.DSN())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := primary.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("killed")
	}
	return 0
}

func (p skewedPair) dsn(t testing.TB) string {
	t.Helper()
	return hosts(t, readWrite, p.primary, p.standby)
}

// failOver kills the primary and promotes the standby, which has the last grant.
func (p skewedPair) failOver(t testing.TB, last *pglock.Lease) {
	t.Helper()
	yes(t, p.standby, "SELECT count(*) = 1 FROM pglock_leases WHERE name = $1 AND token = $2", last.Name(), last.Token())
	p.kill()
	run(t, p.standby, "SELECT pg_promote(wait => false)")
	yes(t, p.standby, "SELECT NOT pg_is_in_recovery()")
}
