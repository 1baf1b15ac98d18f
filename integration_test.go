//go:build unix

// Package leasehold_test drives the project from outside: real processes against PostgreSQL in a container, with real
// faults. A process is frozen (SIGSTOP) and killed (kill -9), its backends are terminated, the server is restarted,
// the network swallows packets, the pool is in full use; and the example runs from its files to its figures.
//
// The promises are those of README's "What fails, and what still holds". The processes are those of internal/testproc.
package leasehold_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/testproc"
)

const name = "invoice-job"

// setup is a holder whose lease may get lost: the TTL is short. A contender polls ten times a second.
func setup(dsn, label string) testproc.Setup {
	return testproc.Setup{
		DSN:            dsn,
		Label:          label,
		Name:           name,
		TTL:            4 * time.Second,
		RenewInterval:  500 * time.Millisecond,
		RequestTimeout: time.Second,
		Margin:         time.Second,
		PollInterval:   100 * time.Millisecond,
	}
}

// patient is a holder whose lease must not get lost: that renewals succeed is seen in the row, not in time that passes, so
// the TTL may be longer than any standstill of the machine.
func patient(dsn, label string) testproc.Setup {
	s := setup(dsn, label)
	s.TTL = time.Minute
	return s
}

// takeOver is what is promised: the next holder has the lease within TTL + 2 s.
func takeOver(s testproc.Setup) time.Duration { return s.TTL + 2*time.Second }

// It is not parallel, and so runs before those that are: it stops the server that all of them share.
func TestServerRestart_KeepsLeaseAndToken(t *testing.T) {
	d := newDatabase(t)
	// The engine gives the server another port; the proxy keeps the address the same, as a service's name does.
	proxy, dsn := faultnet.ListenDSN(t, d.dsn(t))
	holder := testproc.Start(t, program(t, "holder"), patient(dsn, "holder"))
	next := testproc.Start(t, program(t, "holder"), patient(dsn, "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	holder.Do(t, testproc.Write, testproc.Written)
	next.Tell(t, testproc.Acquire) // It waits.
	before := value[time.Time](t, d, `SELECT pg_postmaster_start_time()`)

	d.server.stop(t)
	d.server.start(t)
	proxy.Retarget(d.server.address(t))
	d.connect(t)

	d.eventually(t, "the server is another one", `SELECT pg_postmaster_start_time() > $1`, before)
	d.eventually(t, "the lease is renewed there", `SELECT renewed_at > pg_postmaster_start_time() FROM pglock_leases`)
	d.eventually(t, "the other asks there", `SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'next' AND query <> ''`)
	require.Equal(t, token, holder.Do(t, testproc.Write, testproc.Written).Token)
	require.EqualValues(t, 1, value[int64](t, d, `SELECT count(*) FROM grants`), "one run")

	holder.Do(t, testproc.Release, testproc.Released)
	require.Greater(t, next.Expect(t, testproc.Acquired).Token, token)
	holder.End(t)
	next.End(t)
}

func TestFreeze_LateWriteIsRefusedAndLossIsSeenFirst(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	holder := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "holder"))
	next := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	holder.Do(t, testproc.Write, testproc.Written)

	holder.Freeze(t)
	acquired := next.Do(t, testproc.Acquire, testproc.Acquired)
	require.Greater(t, acquired.Token, token)
	require.True(t, acquired.TookOver)
	next.Do(t, testproc.Write, testproc.Written)

	// The next write is at its door when it wakes up.
	holder.Tell(t, testproc.Write)
	holder.Wake(t)
	require.Equal(t, token, holder.Expect(t, testproc.Lost).Token)
	refused := holder.Expect(t, testproc.Refused)
	require.Equal(t, token, refused.Token)
	require.Equal(t, acquired.Token, refused.Fence)
	require.EqualValues(t, testproc.RowsPerWrite, d.rows(t, token), "those from before")
	require.EqualValues(t, testproc.RowsPerWrite, d.rows(t, acquired.Token))

	// What a lease alone does not do: nothing refuses a statement that does not pass the fence.
	holder.Do(t, testproc.Insert, testproc.Written)
	require.EqualValues(t, 2*testproc.RowsPerWrite, d.rows(t, token))

	// The new holder goes on undisturbed, and the old one may be the next again.
	next.Do(t, testproc.Write, testproc.Written)
	next.Do(t, testproc.Release, testproc.Released)
	require.Greater(t, holder.Do(t, testproc.Try, testproc.Acquired).Token, acquired.Token)
	holder.Do(t, testproc.Write, testproc.Written)
	holder.End(t)
	next.End(t)
}

func TestKill_TakenOverWithHigherToken(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	holder := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "holder"))
	next := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	holder.Do(t, testproc.Write, testproc.Written)
	require.Equal(t, "holder", next.Do(t, testproc.Try, testproc.Held).Holder)

	watch := d.stopwatch(t)
	killed := time.Now()
	holder.Kill(t)
	acquired := next.Do(t, testproc.Acquire, testproc.Acquired)
	require.LessOrEqual(t, acquired.At.Sub(killed), takeOver(setup("", ""))+watch.allowance())
	require.Greater(t, acquired.Token, token)
	require.True(t, acquired.TookOver)
	next.Do(t, testproc.Write, testproc.Written)
	next.End(t)
}

func TestBackendTermination_KeepsLeaseAndToken(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	holder := testproc.Start(t, program(t, "holder"), patient(d.dsn(t), "holder"))
	next := testproc.Start(t, program(t, "holder"), patient(d.dsn(t), "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	for range 3 {
		holder.Do(t, testproc.Write, testproc.Written)
		pids := value[[]int32](t, d, `
SELECT array_agg(pid) FILTER (WHERE pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE application_name = 'holder' AND datname = current_database()`)
		require.GreaterOrEqual(t, len(pids), 2, "the renewer's and one of the pool")
		d.eventually(t, "they are gone", `SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ANY ($1)`, pids)
		gone := value[time.Time](t, d, `SELECT clock_timestamp()`)
		d.eventually(t, "the lease is renewed", `SELECT renewed_at > $1 FROM pglock_leases`, gone)
		held := next.Do(t, testproc.Try, testproc.Held)
		require.Equal(t, "holder", held.Holder)
		require.Equal(t, token, held.Token)
	}
	require.Equal(t, token, holder.Do(t, testproc.Write, testproc.Written).Token)
	require.EqualValues(t, 1, value[int64](t, d, `SELECT count(*) FROM grants`))
	holder.Do(t, testproc.Release, testproc.Released)
	require.Greater(t, next.Do(t, testproc.Try, testproc.Acquired).Token, token)
	holder.End(t)
	next.End(t)
}

func TestBlackHole_HolderStopsBeforeTheNextOneStarts(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	proxy, dsn := faultnet.ListenDSN(t, d.dsn(t))
	s := setup(dsn, "holder")
	holder := testproc.Start(t, program(t, "holder"), s)
	next := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	holder.Do(t, testproc.Write, testproc.Written)
	d.eventually(t, "the lease is renewed", `SELECT renewed_at > acquired_at FROM pglock_leases`)

	watch := d.stopwatch(t)
	proxy.Set(faultnet.BlackHole())
	cut := time.Now()
	next.Tell(t, testproc.Acquire)
	lost := holder.Expect(t, testproc.Lost)
	acquired := next.Expect(t, testproc.Acquired)
	allowance := watch.allowance()
	require.Equal(t, token, lost.Token)
	require.Equal(t, "unreachable", lost.Reason)
	require.LessOrEqual(t, lost.At.Sub(cut), s.TTL-s.Margin+allowance)
	require.Greater(t, acquired.Token, token)
	require.True(t, acquired.TookOver)
	require.LessOrEqual(t, acquired.At.Sub(cut), takeOver(s)+allowance)
	next.Do(t, testproc.Write, testproc.Written)

	proxy.Set(faultnet.Pass())
	require.Equal(t, acquired.Token, holder.Do(t, testproc.Write, testproc.Refused).Fence)
	require.EqualValues(t, testproc.RowsPerWrite, d.rows(t, token), "those from before")
	holder.End(t)
	next.End(t)
}

func TestStarvedPool_KeepsLease(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	s := setup(d.dsnOf(t, d.name, "pool_max_conns=2"), "holder")
	holder := testproc.Start(t, program(t, "holder"), s)
	next := testproc.Start(t, program(t, "holder"), setup(d.dsn(t), "next"))
	token := holder.Do(t, testproc.Acquire, testproc.Acquired).Token
	holder.Do(t, testproc.Starve, testproc.Starved)
	d.eventually(t, "the pool is in full use", `
SELECT count(*) = 2
FROM pg_stat_activity
WHERE application_name = 'holder' AND datname = current_database() AND state = 'active' AND query LIKE '%pg_sleep%'`)
	started := value[time.Time](t, d, `SELECT clock_timestamp()`)

	d.eventually(t, "the lease outlives its TTL", `SELECT renewed_at > $1::timestamptz + $2::interval FROM pglock_leases`, started, s.TTL)
	held := next.Do(t, testproc.Try, testproc.Held)
	require.Equal(t, "holder", held.Holder)
	require.Equal(t, token, held.Token)
	require.EqualValues(t, 1, value[int64](t, d, `SELECT count(*) FROM grants`))

	holder.Do(t, testproc.Feed, testproc.Fed)
	require.Equal(t, token, holder.Do(t, testproc.Write, testproc.Written).Token)
	holder.Do(t, testproc.Release, testproc.Released)
	require.Greater(t, next.Do(t, testproc.Try, testproc.Acquired).Token, token)
	holder.End(t)
	next.End(t)
}

// rows counts what was written with a token.
func (d *database) rows(t *testing.T, token int64) int64 {
	t.Helper()
	return value[int64](t, d, `SELECT count(*) FROM writes WHERE token = $1`, token)
}
