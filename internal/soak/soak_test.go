package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// No test here is parallel: they count what the process has.
func TestMain(m *testing.M) { pgtest.Main(m) }

// place is a server of the test's own, as only what the load does may be seen there.
func place(t *testing.T) Options {
	t.Helper()
	server := pgtest.Private(t, nil)
	return Options{DSN: server.DSN(), Schema: pgtest.MigratedOn(t, server.DSN()), Seed: rand.Uint64()}
}

// TestSoak_NothingGrows takes LEASEHOLD_SOAK, a duration. Default: 8 s. LEASEHOLD_SOAK_REPORT is a file for the report.
func TestSoak_NothingGrows(t *testing.T) {
	options := place(t)
	options.Duration = 8 * time.Second
	if text := os.Getenv("LEASEHOLD_SOAK"); text != "" {
		var err error
		options.Duration, err = time.ParseDuration(text)
		require.NoError(t, err, "LEASEHOLD_SOAK")
	}
	report, err := Run(t.Context(), options)
	require.NoError(t, err)
	text := report.Markdown(conditions()...)
	t.Log("\n" + text)
	if file := os.Getenv("LEASEHOLD_SOAK_REPORT"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.Empty(t, report.Grown())
	require.Empty(t, report.Left)
	require.Zero(t, report.StalePassed)
	require.NoError(t, report.Other)
	last := report.Samples[len(report.Samples)-1]
	for _, table := range []Table{last.Leases, last.Fences} {
		require.Greater(t, float64(table.HOT), 0.9*float64(table.Updates), "updates that touch no index")
	}
	for _, did := range []string{"do: done", "hold: done", "lose: lost", "event: acquired", "event: lost", "event: taken over"} {
		require.Positive(t, report.Counts[did], did)
	}
}

// conditions are what the report cannot know.
func conditions() []string {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return nil
	}
	return []string{"commit " + strings.TrimSpace(string(commit))}
}

// A worker that leaks on purpose is found out, in each of the ways that it does.
func TestSoak_FindsALeak(t *testing.T) {
	options := place(t)
	options.Duration, options.Settle = 5*time.Second, time.Second
	var heap [][]byte
	var files []*os.File
	var conns []*pgx.Conn
	end := make(chan struct{})
	defer func() {
		close(end)
		for _, f := range files {
			_ = f.Close()
		}
		for _, c := range conns {
			_ = c.Close(context.Background())
		}
	}()
	settings, err := pgx.ParseConfig(options.DSN)
	require.NoError(t, err)
	settings.RuntimeParams["application_name"] = application
	admin := pgtest.Pool(t, options.DSN)
	// A snapshot that is never let go of keeps every version of every row.
	tx, err := admin.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	// What leaks is a matter of the time, not of how often the machine gets to it: by the square, up to the total at the end.
	var began time.Time
	n, goroutines, rows := 0, 0, 0
	options.Leak = func(ctx context.Context) {
		n++
		if began.IsZero() {
			began = time.Now()
		}
		share := min(1, time.Since(began).Seconds()/options.Duration.Seconds())
		leaked := func(total int) int { return int(share * share * float64(total)) }
		for ; goroutines < leaked(1000); goroutines++ {
			go func() { <-end }()
		}
		for len(files) < leaked(1000) {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			files = append(files, f)
		}
		for len(heap) < leaked(60) {
			heap = append(heap, make([]byte, 2<<20))
		}
		for len(conns) < leaked(180) { // Of the server's 300.
			c, err := pgx.ConnectConfig(ctx, settings)
			if err != nil {
				break
			}
			conns = append(conns, c)
			_, _ = c.Exec(ctx, "SELECT pg_advisory_lock($1)", len(conns))
		}
		more := leaked(25_000) - rows
		rows += more
		_, _ = admin.Exec(ctx, quoted(options.Schema, `
			INSERT INTO %s.pglock_leases (name, token, holder, acquired_at, renewed_at)
			SELECT concat('leak ', $1::int, ' ', i), 1, gen_random_uuid(), clock_timestamp(), clock_timestamp() FROM generate_series(1, $2::int) AS i`),
			n, more)
		_, _ = admin.Exec(ctx, quoted(options.Schema, `
			UPDATE %s.pglock_leases SET renewed_at = clock_timestamp() WHERE name LIKE concat('leak ', $1::int, ' %')`), n)
	}
	report, err := Run(t.Context(), options)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, f := range report.Grown() {
		found[f.Metric] = true
	}
	for _, name := range []string{
		"goroutines", "file descriptors", "heap after a collection", "sessions on the server", "advisory locks of idle sessions",
		"pglock_leases, table", "pglock_leases, indexes", "dead rows of both",
	} {
		require.True(t, found[name], "%s; %v", name, report.Findings)
	}
	require.NotEmpty(t, report.Left)
	require.NotEmpty(t, heap)
}

// steady is a run in which nothing grows, on a machine whose numbers are out by a third.
func steady(n int) []Sample {
	samples := make([]Sample, n)
	noise := func(around int) int { return around*2/3 + rand.IntN(around*2/3+1) }
	var operations, wal int64
	for i := range samples {
		done := int64(noise(100))
		operations += done
		wal += done * int64(noise(900))
		table := Table{Table: int64(noise(64 << 10)), Indexes: 16 << 10, Dead: int64(noise(300))}
		samples[i] = Sample{
			At: time.Duration(i) * time.Second, Operations: operations, WAL: wal, Goroutines: noise(60), Files: noise(30),
			Heap: uint64(noise(5 << 20)), Pooled: noise(15), Sessions: noise(20), Prepared: 7, Leases: table, Fences: table,
		}
	}
	return samples
}

func TestJudge_NoiseIsNoLeak(t *testing.T) {
	for range 200 {
		findings, err := Judge(steady(60))
		require.NoError(t, err)
		for _, f := range findings {
			require.False(t, f.Grew, f.String())
		}
	}
}

// Each metric alone, when it doubles and more over the run.
func TestJudge_GrowthOfEachMetricIsFound(t *testing.T) {
	grow := map[string]func(s *Sample, i int){
		"goroutines":                                func(s *Sample, i int) { s.Goroutines += 6 * i },
		"file descriptors":                          func(s *Sample, i int) { s.Files += 5 * i },
		"heap after a collection":                   func(s *Sample, i int) { s.Heap += uint64(i) << 20 },
		"connections of the pools":                  func(s *Sample, i int) { s.Pooled += 3 * i },
		"sessions on the server":                    func(s *Sample, i int) { s.Sessions += 3 * i },
		"advisory locks of idle sessions":           func(s *Sample, i int) { s.IdleLocks += i / 20 },
		"prepared statements of the oldest session": func(s *Sample, i int) { s.Prepared += i },
		"pglock_leases, table":                      func(s *Sample, i int) { s.Leases.Table += int64(i) << 16 },
		"pglock_leases, indexes":                    func(s *Sample, i int) { s.Leases.Indexes += int64(i) << 14 },
		"job_fences, table":                         func(s *Sample, i int) { s.Fences.Table += int64(i) << 16 },
		"job_fences, indexes":                       func(s *Sample, i int) { s.Fences.Indexes += int64(i) << 14 },
		"dead rows of both":                         func(s *Sample, i int) { s.Leases.Dead += 5 * int64(i) * int64(i) },
		"WAL an operation":                          func(s *Sample, i int) { s.WAL += 300 * int64(i) * int64(i) * int64(i) },
	}
	require.Len(t, grow, len(metrics))
	for name, f := range grow {
		samples := steady(60)
		for i := range samples {
			f(&samples[i], i)
		}
		findings, err := Judge(samples)
		require.NoError(t, err)
		for _, finding := range findings {
			require.Equal(t, finding.Metric == name, finding.Grew, "%s: %v", name, finding)
		}
	}
}

func TestJudge_RefusesTooFewSamples(t *testing.T) {
	_, err := Judge(steady(minSamples - 1))
	require.ErrorContains(t, err, fmt.Sprint(minSamples))
}
