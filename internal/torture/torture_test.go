package torture_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/torture"
)

var (
	seed  = flag.Uint64("seed", 0, "of the decisions of the torture test; 0 draws one")
	named = flag.String("faults", os.Getenv("LEASEHOLD_TORTURE_FAULTS"), "that take part, with commas between; default: all")
)

// TestTorture_RandomOperationsWithFaults, all of them mixed, or those that -faults or LEASEHOLD_TORTURE_FAULTS name. It takes
// LEASEHOLD_TORTURE, a duration. Default: 15 s.
func TestTorture_RandomOperationsWithFaults(t *testing.T) {
	t.Parallel()
	judge, options := buildJudge(t), setUp(t)
	options.Seed, options.Duration = chosenSeed(), duration(t, "LEASEHOLD_TORTURE", 15*time.Second)
	again := fmt.Sprintf("LEASEHOLD_TORTURE=%v go test ./internal/torture -run TestTorture_RandomOperationsWithFaults -seed %d",
		options.Duration, options.Seed)
	if *named != "" {
		options.Faults = strings.Split(*named, ",")
		again += fmt.Sprintf(" -faults %q", *named)
	}
	t.Logf("seed %d: %s", options.Seed, again)
	report := runAndJudge(t, judge, options)
	enough(t, report, options)
	if len(options.Faults) == 0 {
		mixed(t, report, options)
	}
}

// TestTorture_OneFaultAtATime has each fault alone, for LEASEHOLD_TORTURE_SINGLY, a duration. Default: the seed draws one, for 8 s.
func TestTorture_OneFaultAtATime(t *testing.T) {
	t.Parallel()
	judge, options := buildJudge(t), setUp(t)
	options.Seed, options.Duration = chosenSeed(), duration(t, "LEASEHOLD_TORTURE_SINGLY", 8*time.Second)
	faults := options.TakesPart()
	if os.Getenv("LEASEHOLD_TORTURE_SINGLY") == "" {
		faults = faults[options.Seed%uint64(len(faults)):][:1]
	}
	t.Logf("seed %d: LEASEHOLD_TORTURE_SINGLY=%v go test ./internal/torture -run 'TestTorture_OneFaultAtATime/%s' -seed %d",
		options.Seed, options.Duration, strings.ReplaceAll(faults[0], " ", "_"), options.Seed)
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			options := options
			options.Faults = []string{fault}
			options.Schema = pgtest.MigratedOn(t, options.DSN)
			report := runAndJudge(t, judge, options)
			enough(t, report, options)
			require.Positive(t, report.Counts["fault "+fault])
		})
	}
}

func duration(t *testing.T, variable string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, variable)
	return d
}

func chosenSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64()
}

func runAndJudge(t *testing.T, judge string, options torture.Options) *torture.Report {
	t.Helper()
	report, err := torture.Run(t.Context(), options)
	require.NoError(t, err)
	t.Logf("in %v: %s", options.Duration, counts(report.Counts))
	judged(t, judge, report)
	return report
}

// enough fails if so little happened that nothing could go wrong. The limits are far below what a loaded machine does.
func enough(t *testing.T, report *torture.Report, options torture.Options) {
	t.Helper()
	atLeast(t, report, options, map[string]float64{ // in 10 s
		"ops":                     100,
		"grants":                  8,
		"granted in the database": 8,
		"renewals":                5,
		"writes committed":        8,
	})
	withDefaults := 6 * 4 // clients and names
	require.Equal(t, withDefaults, report.Counts["stood"], "each client has stood for each name")
	if runtime.GOOS == "linux" { // The servers of this test let their superuser read files.
		require.Zero(t, report.Counts["recorded without the machine's clock"])
	}
}

// mixed fails if the faults have hardly been felt, or if one of them has not been there in a run that is long enough for all.
func mixed(t *testing.T, report *torture.Report, options torture.Options) {
	t.Helper()
	atLeast(t, report, options, map[string]float64{ // in 10 s
		"taken over":     2,
		"writes refused": 2,
		"losses":         1,
		"faults":         15,
	})
	if options.Duration < 3*time.Minute {
		return
	}
	for _, name := range options.TakesPart() {
		require.Positive(t, report.Counts["fault "+name], name)
	}
}

func atLeast(t *testing.T, report *torture.Report, options torture.Options, inTenSeconds map[string]float64) {
	t.Helper()
	for what, least := range inTenSeconds {
		require.GreaterOrEqual(t, float64(report.Counts[what]), least*min(options.Duration.Seconds(), 30)/10, what)
	}
}

func counts(counted map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(counted)) {
		fmt.Fprintf(&b, "\n  %-28s %d", what, counted[what])
	}
	return b.String()
}
