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
	runAndJudge(t, judge, options)
}

// TestTorture_OneFaultAtATime has each fault alone, for LEASEHOLD_TORTURE_SINGLY, a duration. Default: the seed draws one,
// for 8 s.
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
			runAndJudge(t, judge, options)
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

func runAndJudge(t *testing.T, judge string, options torture.Options) {
	t.Helper()
	options.Lacks = lacking(options)
	report, err := torture.Run(t.Context(), options)
	require.NoError(t, err)
	t.Logf("in %v: %s", options.Duration, counts(report.Counts))
	judged(t, judge, report)
	require.Empty(t, options.Lacks(report), "has not happened, or too seldom")
	const clients, names = 6, 4 // the defaults
	require.Equal(t, clients*names, report.Counts["stood"], "each client has stood for each name")
	if runtime.GOOS == "linux" { // The servers of this test let their superuser read files.
		require.Zero(t, report.Counts["recorded without the machine's clock"])
	}
}

// lacking lists what has happened too seldom: an idle run finds nothing wrong.
func lacking(options torture.Options) func(*torture.Report) []string {
	inTenSeconds := map[string]float64{ // of half a minute at most
		"ops":                     100,
		"grants":                  8,
		"granted in the database": 8,
		"renewals":                5,
		"writes committed":        8,
	}
	if len(options.Faults) == 0 {
		maps.Copy(inTenSeconds, map[string]float64{"taken over": 2, "writes refused": 2, "losses": 1, "faults": 15})
	}
	return func(report *torture.Report) (lacks []string) {
		for what, least := range inTenSeconds {
			if float64(report.Counts[what]) < least*min(options.Duration.Seconds(), 30)/10 {
				lacks = append(lacks, fmt.Sprintf("%s: %d", what, report.Counts[what]))
			}
		}
		if options.Duration < 3*time.Minute && len(options.TakesPart()) > 1 { // Too short for each of several.
			return lacks
		}
		for _, name := range options.TakesPart() {
			if report.Counts["fault "+name] == 0 {
				lacks = append(lacks, "fault "+name)
			}
		}
		return lacks
	}
}

func counts(counted map[string]int) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(counted)) {
		fmt.Fprintf(&b, "\n  %-28s %d", what, counted[what])
	}
	return b.String()
}
