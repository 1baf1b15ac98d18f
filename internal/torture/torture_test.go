package torture_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/internal/torture"
)

var (
	seed  = flag.Uint64("seed", 0, "of the decisions of the torture test; 0 draws one")
	named = flag.String("faults", os.Getenv("LEASEHOLD_TORTURE_FAULTS"), "that take part, with commas between; default: all")
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTorture_RandomOperationsWithFaults takes LEASEHOLD_TORTURE, a duration. Default: 15 s.
func TestTorture_RandomOperationsWithFaults(t *testing.T) {
	t.Parallel()
	duration := 15 * time.Second
	if text := os.Getenv("LEASEHOLD_TORTURE"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, "LEASEHOLD_TORTURE")
	}
	options := setUp(t)
	options.Seed, options.Duration = chosenSeed(), duration
	again := fmt.Sprintf("LEASEHOLD_TORTURE=%v go test ./internal/torture -run TestTorture_RandomOperationsWithFaults -seed %d", duration, options.Seed)
	if *named != "" {
		options.Faults = strings.Split(*named, ",")
		again += fmt.Sprintf(" -faults %q", *named)
	}
	t.Logf("seed %d: %s", options.Seed, again)

	report, err := torture.Run(t.Context(), options)
	require.NoError(t, err)
	t.Logf("in %v: %s", duration, counts(report.Counts))
	keepOnFailure(t, report)
	for _, v := range history.Check(report.Events) {
		t.Error(v)
	}
	for _, f := range report.Failures {
		t.Error(f)
	}
	require.Empty(t, report.Strange, "errors of the server that no fault accounts for")
	enough(t, report, options)
}

func chosenSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64()
}

// setUp builds the program and starts what is tortured.
func setUp(t *testing.T) torture.Options {
	t.Helper()
	program, err := torture.BuildClient(t.Context(), t.TempDir())
	require.NoError(t, err)
	server := pgtest.Private(t, nil)
	return torture.Options{
		Program: program,
		DSN:     server.DSN(),
		Schema:  pgtest.MigratedOn(t, server.DSN()),
		Server:  server,
		Pooler:  pgtest.PgBouncer(t, server.DSN(), pgserver.BouncerOptions{Settings: torture.PoolerSettings}),
		Proxy:   func(dsn string) (*faultnet.Proxy, string) { return faultnet.ListenDSN(t, dsn) },
	}
}

// enough fails if so little happened that nothing could go wrong. The limits are far below what a loaded machine does.
func enough(t *testing.T, report *torture.Report, options torture.Options) {
	t.Helper()
	for what, least := range map[string]float64{ // in 10 s
		"ops":                     150,
		"grants":                  12,
		"granted in the database": 12,
		"renewals":                15,
		"writes committed":        12,
	} {
		require.GreaterOrEqual(t, float64(report.Counts[what]), least*min(options.Duration.Seconds(), 30)/10, what)
	}
	if len(options.Faults) > 0 {
		return
	}
	for what, least := range map[string]float64{
		"taken over":     3,
		"writes refused": 3,
		"losses":         1,
		"faults":         15,
	} {
		require.GreaterOrEqual(t, float64(report.Counts[what]), least*min(options.Duration.Seconds(), 30)/10, what)
	}
	if options.Duration >= 3*time.Minute {
		for _, name := range options.TakesPart() {
			require.Positive(t, report.Counts["fault "+name], name)
		}
	}
}

func counts(counted map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(counted)) {
		fmt.Fprintf(&b, "\n  %-28s %d", what, counted[what])
	}
	return b.String()
}

// keepOnFailure writes the history to a file that is kept if the test fails.
func keepOnFailure(t *testing.T, report *torture.Report) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		file, err := os.CreateTemp("", fmt.Sprintf("leasehold-torture-%d-*.jsonl", report.Seed))
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		if err := history.Write(file, report.Events); err != nil {
			t.Error(err)
		}
		t.Logf("the history is kept: go run ./internal/history/judge %s", file.Name())
	})
}
