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
	"github.com/leasehold-go/leasehold/internal/torture"
	"github.com/leasehold-go/leasehold/migrations"
)

var seed = flag.Uint64("seed", 0, "of the decisions of the torture test; 0 draws one")

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTorture_RandomOperationsWithFaults takes LEASEHOLD_TORTURE, a duration. Default: 10 s.
func TestTorture_RandomOperationsWithFaults(t *testing.T) {
	t.Parallel()
	duration := 10 * time.Second
	if text := os.Getenv("LEASEHOLD_TORTURE"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err, "LEASEHOLD_TORTURE")
	}
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("seed %d: go test ./internal/torture -run TestTorture_RandomOperationsWithFaults -seed %d", chosen, chosen)

	server := pgtest.Private(t, nil)
	schema := pgtest.SchemaOn(t, server.DSN())
	require.NoError(t, migrations.Up(t.Context(), migrations.URL(server.DSN()), migrations.Options{Schema: schema}))
	report, err := torture.Run(t.Context(), torture.Options{
		Seed:     chosen,
		Duration: duration,
		DSN:      server.DSN(),
		Schema:   schema,
		Server:   server,
		Proxy:    func(dsn string) (*faultnet.Proxy, string) { return faultnet.ListenDSN(t, dsn) },
	})
	require.NoError(t, err)
	t.Logf("in %v: %s", duration, counts(report.Counts))
	keepOnFailure(t, report)
	for _, v := range history.Check(report.Events) {
		t.Error(v)
	}
	require.Empty(t, report.Stuck, "each name can be acquired after the last fault")
	require.Empty(t, report.Strange, "errors of the server that no fault accounts for")
	enough(t, report, duration)
}

// enough fails if so little happened that nothing could go wrong. The limits are far below what a loaded machine does.
func enough(t *testing.T, report *torture.Report, duration time.Duration) {
	t.Helper()
	for what, least := range map[string]float64{ // in 10 s
		"ops":                     150,
		"grants":                  12,
		"granted in the database": 12,
		"taken over":              3,
		"renewals":                15,
		"writes committed":        12,
		"writes refused":          3,
		"losses":                  1,
		"faults":                  15,
	} {
		require.GreaterOrEqual(t, float64(report.Counts[what]), least*min(duration.Seconds(), 30)/10, what)
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
