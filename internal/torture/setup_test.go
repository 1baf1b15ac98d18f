package torture_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/internal/torture"
)

// setUp builds the program and starts what is tortured. What the machine has not is left out, and said.
func setUp(t *testing.T) torture.Options {
	t.Helper()
	program, err := torture.BuildClient(t.Context(), t.TempDir())
	require.NoError(t, err)
	o := torture.Options{
		Program: program,
		Proxy:   func(dsn string) (*faultnet.Proxy, string) { return faultnet.ListenDSN(t, dsn) },
	}
	settings := pgserver.Options{Settings: map[string]string{}}
	if clock, err := pgserver.NewClock(); err == nil {
		t.Cleanup(func() { require.NoError(t, clock.Close()) })
		o.Clock = clock
		settings.Environment = clock.Environment()
	} else {
		leftOut(t, "steps of the server's clock", err)
	}
	if disk, err := pgserver.NewDisk(32); err == nil {
		t.Cleanup(func() { require.NoError(t, disk.Close()) })
		o.Disk = disk
		settings.WAL, err = disk.WAL()
		require.NoError(t, err)
		settings.WALSegment = 1
		settings.Settings["min_wal_size"], settings.Settings["max_wal_size"] = "2MB", "8MB"
	} else {
		leftOut(t, "a full disk", err)
	}
	o.Server = pgtest.PrivateWith(t, settings)
	o.DSN = o.Server.DSN()
	o.Schema = pgtest.MigratedOn(t, o.DSN)
	pooling := pgserver.BouncerOptions{Settings: torture.PoolerSettings}
	if bouncer, err := pgserver.StartBouncer(t.Context(), o.DSN, pooling); err == nil {
		t.Cleanup(func() { require.NoError(t, bouncer.Close()) })
		o.Pooler = bouncer
	} else {
		leftOut(t, "clients behind PgBouncer", err)
	}
	return o
}

// leftOut says what does not take part. In CI, where that would pass for a run with it, it is a failure.
func leftOut(t *testing.T, what string, reason error) {
	t.Helper()
	if os.Getenv("LEASEHOLD_NO_SKIP") == "1" {
		t.Errorf("LEASEHOLD_NO_SKIP is set, and something does not take part: %s: %v", what, reason)
	}
	t.Logf("left out: %s: %v", what, reason)
}
