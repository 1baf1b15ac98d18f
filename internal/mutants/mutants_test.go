package mutants

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/internal/torture"
	"github.com/leasehold-go/leasehold/migrations"
)

var (
	seed = flag.Uint64("seed", 0, "of the choice of mutants and of the torture; 0 draws one")
	runs = flag.Int("runs", 1, "how often each mutant has to be found, with one seed after the other")
)

const (
	lanes = 3 // mutants at once, each lane with a server of its own
	drawn = 4 // how many are drawn besides those that come always

	// A mutant is mostly found in seconds. One that several things must meet for may take longer, and a busy machine is no excuse.
	limit = 4 * time.Minute
	// How long a run lasts whose fault shows at its end, or that has none.
	short = 4 * time.Second
)

// always are those that the default form of the test takes besides the ones that it draws.
var always = []string{
	"renew without the token", "renew by upsert", "acquire does not look again", "grant without the fence",
	"trust from the reply of a renewal",
	"gate is open",
}

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestMutants_AreFound takes LEASEHOLD_MUTANTS: "all", or names of mutants with commas between them. Default: the most important
// ones, and some that the seed draws.
func TestMutants_AreFound(t *testing.T) {
	t.Parallel()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	list := choose(t, chosen)
	t.Logf("seed %d, of %d mutants: %s", chosen, len(All()), names(list))
	queue := make(chan Mutant)
	var workers sync.WaitGroup
	for range min(lanes, len(list)) {
		server := pgtest.Private(t, nil)
		workers.Go(func() {
			for m := range queue {
				t.Run(strings.ReplaceAll(m.Name, " ", "_"), func(t *testing.T) { m.find(t, server, chosen) })
			}
		})
	}
	for _, m := range list {
		queue <- m
	}
	close(queue)
	workers.Wait()
}

// choose gives the mutants to look for.
func choose(t *testing.T, chosen uint64) []Mutant {
	t.Helper()
	var wanted []string
	switch text := os.Getenv("LEASEHOLD_MUTANTS"); text {
	case "all":
		return All()
	case "":
		var others []string
		for _, m := range All() {
			if !slices.Contains(always, m.Name) && m.quick() {
				others = append(others, m.Name)
			}
		}
		if raced { // What runs is a program of its own, without the detector: here it only has the run to watch.
			wanted = always[2:3]
			break
		}
		d := rand.New(rand.NewPCG(chosen, 0))
		d.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		wanted = slices.Concat(always, others[:drawn])
	default:
		wanted = strings.Split(text, ",")
	}
	var list []Mutant
	for _, name := range wanted {
		i := slices.IndexFunc(All(), func(m Mutant) bool { return m.Name == name })
		require.GreaterOrEqual(t, i, 0, "there is no mutant %q", name)
		list = append(list, All()[i])
	}
	return list
}

// quick tells whether it is drawn: not if it takes a minute.
func (m Mutant) quick() bool { return m.Suite == nil && !m.Slow && !m.Calm }

func names(list []Mutant) string {
	var all []string
	for _, m := range list {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

// find builds the mutant and looks for its fault, as often as -runs says.
func (m Mutant) find(t *testing.T, server *pgserver.Server, seed uint64) {
	t.Helper()
	if m.Suite != nil {
		took := timed(func() { m.failSuite(t) })
		t.Logf("found by %s in %v", m.Suite.Run, took)
		return
	}
	var program string
	built := timed(func() {
		var err error
		program, err = m.build(t.Context(), root(t), t.TempDir(), "internal/torture/client")
		require.NoError(t, err)
	})
	var times []time.Duration
	for i := range *runs {
		var found string
		times = append(times, timed(func() { found = m.hunt(t, server, program, seed+uint64(i)) }))
		t.Logf("built in %v, %v: %s", built, times[i], found)
	}
	slices.Sort(times)
	t.Logf("%s: median of %d: %v, longest %v", m.Name, len(times), median(times), times[len(times)-1])
}

// hunt lets the torture loose on the mutant until it is found, and returns the report. It finds nothing in one that is none.
func (m Mutant) hunt(t *testing.T, server *pgserver.Server, program string, seed uint64) string {
	t.Helper()
	if m.Rules == nil {
		require.Empty(t, m.torture(t, server, program, seed))
		return "clean"
	}
	started := time.Now()
	for again := uint64(0); ; again++ {
		found := m.torture(t, server, program, seed+again<<32)
		if i := slices.IndexFunc(found, m.Caught); i >= 0 {
			return found[i].String()
		}
		require.Less(t, time.Since(started), limit, "not found; only %v", found)
	}
}

// median is of sorted times.
func median(times []time.Duration) time.Duration {
	return (times[(len(times)-1)/2] + times[len(times)/2]) / 2
}

func timed(work func()) time.Duration {
	started := time.Now()
	work()
	return time.Since(started).Round(100 * time.Millisecond)
}

// torture runs until the fault is found, or for a short time for a mutant that is judged at the end.
func (m Mutant) torture(t *testing.T, server *pgserver.Server, program string, seed uint64) []history.Violation {
	t.Helper()
	schema := pgtest.SchemaOn(t, server.DSN())
	m.migrate(t, server.DSN(), schema)
	options := torture.Options{
		Seed:     seed,
		Duration: limit,
		DSN:      server.DSN(),
		Schema:   schema,
		Server:   server,
		Program:  program,
		Proxy:    func(dsn string) (*faultnet.Proxy, string) { return faultnet.ListenDSN(t, dsn) },
		Favour:   m.Favour,
		Faults:   m.Faults,
		Clients:  4, // They meet as often as more of them do on more names, and leave room for other mutants.
		Names:    []string{"invoice-job", `na"me`},
		MinTTL:   300 * time.Millisecond,
		MaxTTL:   500 * time.Millisecond,
		Enough:   func(r *torture.Report) bool { return slices.ContainsFunc(history.Check(r.Events), m.Caught) },
	}
	if m.Rules == nil || m.Calm {
		options.Duration, options.Enough = short, nil
	}
	report, err := torture.Run(t.Context(), options)
	require.NoError(t, err)
	require.Positive(t, report.Counts["grants"])
	return history.Check(report.Events)
}

// migrate makes the tables, with the mutant's own command if its fault is in them.
func (m Mutant) migrate(t *testing.T, dsn, schema string) {
	t.Helper()
	if !slices.ContainsFunc(m.Edits, func(e Edit) bool { return strings.HasPrefix(e.File, "migrations/") }) {
		require.NoError(t, migrations.Up(t.Context(), migrations.URL(dsn), migrations.Options{Schema: schema}))
		return
	}
	program, err := m.build(t.Context(), root(t), t.TempDir(), "cmd/pglock")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "migrate", "up", "--schema", schema)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+dsn)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// failSuite runs the test that has to fail.
func (m Mutant) failSuite(t *testing.T) {
	t.Helper()
	overlay, err := m.overlay(root(t), t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-vet=off", "-overlay", overlay,
		"-run", "^"+m.Suite.Run+"$", "./"+m.Suite.Package)
	cmd.Dir = root(t)
	output, err := cmd.CombinedOutput()
	text := string(output)
	if err == nil && strings.Contains(text, "--- SKIP: "+m.Suite.Run) {
		pgtest.Skip(t, text)
	}
	var failed *exec.ExitError
	require.True(t, errors.As(err, &failed), "%v\n%s", err, text)
	require.Contains(t, text, "--- FAIL: "+m.Suite.Run)
	require.Contains(t, text, m.Suite.Says)
}
