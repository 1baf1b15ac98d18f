//go:build linux

package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/migrations"
)

var seed = flag.Uint64("seed", 0, "of the rounds and of the workers; 0 draws one")

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) != "" {
		os.Exit(roleWorker())
	}
	if os.Getenv(envKilled) != "" {
		os.Exit(cluster.RoleKilled())
	}
	pgtest.Main(m)
}

// patience bounds a wait, far above what a loaded machine needs.
const patience = 3 * time.Minute

// A mode is how the cluster replicates.
type mode struct {
	name                string
	synchronous, strict bool
	faults              []fault // of the rounds
}

// TestCluster_FailoversUnderLoad takes LEASEHOLD_CLUSTER, the number of rounds with asynchronous and with synchronous replication; half of
// the latter are strict. Without it there is one of each, and Patroni waits for half as long as its documentation asks for.
func TestCluster_FailoversUnderLoad(t *testing.T) {
	t.Parallel()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("seed %d: go test ./internal/cluster -run TestCluster_FailoversUnderLoad -seed %d", chosen, chosen)
	d := rand.New(rand.NewPCG(chosen, 0))
	settings := cluster.Settings{TTL: 10 * time.Second}
	modes := []mode{
		{"asynchronous", false, false, []fault{faultNamed("kill behind")}},
		{"synchronous", true, false, []fault{faultNamed("freeze")}},
	}
	if underRace {
		modes = modes[:1]
	}
	if text := os.Getenv("LEASEHOLD_CLUSTER"); text != "" {
		rounds, err := strconv.Atoi(text)
		require.NoError(t, err, "LEASEHOLD_CLUSTER")
		settings.TTL = 20 * time.Second
		first, second := drawn(d, rounds), drawn(d, rounds)
		modes = []mode{
			{"asynchronous", false, false, first},
			{"synchronous", true, false, second[:(rounds+1)/2]},
			{"strict", true, true, second[(rounds+1)/2:]},
		}
	}
	if name := os.Getenv("LEASEHOLD_CLUSTER_MODE"); name != "" {
		modes = slices.DeleteFunc(modes, func(m mode) bool { return m.name != name })
		require.NotEmpty(t, modes, "LEASEHOLD_CLUSTER_MODE")
	}
	c := cluster.Start(t, settings)
	for _, m := range modes {
		r := &run{t: t, c: c, mode: m, dice: d, names: []string{"invoice-job", `na"me`, "Zürich"}, outlive: 2 * settings.TTL}
		r.all(t.Context(), chosen)
	}
	whatClientsAreTold(t, c, modes[0].name)
}

// drawn are the faults of n rounds, in an order by chance; LEASEHOLD_CLUSTER_FAULT names the only one.
func drawn(d *rand.Rand, n int) []fault {
	var deck []fault
	if name := os.Getenv("LEASEHOLD_CLUSTER_FAULT"); name != "" {
		return slices.Repeat([]fault{faultNamed(name)}, n)
	}
	for len(deck) < n {
		var more []fault
		for _, f := range faults {
			for range f.often {
				more = append(more, f)
			}
		}
		d.Shuffle(len(more), func(i, k int) { more[i], more[k] = more[k], more[i] })
		deck = append(deck, more...)
	}
	return deck[:n]
}

// A run is the rounds of one mode, with workers and tables of its own.
type run struct {
	t      *testing.T
	c      *cluster.Cluster
	mode   mode
	dice   *rand.Rand
	names  []string
	load   *load
	noted  []history.Event // by this process
	rounds []round

	outlive time.Duration // a TTL with which a lease outlives a failover
}

// A round is one fault and what came of it.
type round struct {
	fault    fault
	said     string
	from, to int64 // of the fault
	timeline int64 // before it
	ready    int64 // every name had been granted again
}

func (r *run) all(ctx context.Context, seed uint64) {
	t := r.t
	require.NoError(t, r.c.Synchronous(ctx, r.mode.synchronous, r.mode.strict))
	leader, err := r.c.Leader(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, leader.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE SCHEMA "+r.mode.name)
		return err
	}))
	require.NoError(t, migrations.Up(ctx, migrations.URL(leader.DSN()), migrations.Options{Schema: r.mode.name}))
	require.NoError(t, leader.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error { return record(ctx, conn, r.mode.name) }))

	r.load = startLoad(t, r.c.DSN("target_session_attrs=read-write&connect_timeout=1"), r.mode.name, seed, r.names, r.outlive)
	r.granted(ctx, clock.Now())
	for i, f := range r.mode.faults {
		if err := r.round(ctx, i+1, f); err != nil {
			t.Errorf("%s, round %d: %s: %v", r.mode.name, i+1, f.name, err)
			break // What there is is judged.
		}
	}
	sleep(ctx, 2*time.Second)
	r.load.stop()
	r.judge(ctx)
}

// round has one fault, waits until the cluster is whole and every name has been granted again.
func (r *run) round(ctx context.Context, number int, f fault) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	leader, err := r.c.Whole(ctx)
	if err != nil {
		return err
	}
	r.sample()
	sleep(ctx, between(r.dice, time.Second, 3*time.Second))
	now := round{fault: f}
	if now.timeline, err = timeline(ctx, leader); err != nil {
		return err
	}
	now.from = clock.Now()
	now.said, err = f.do(ctx, r, leader)
	if err == nil {
		_, err = r.c.Whole(ctx)
	}
	now.to = clock.Now()
	r.note(history.KindFault, now.from, f.name+": "+now.said)
	if f.failover {
		text := ""
		if !r.mode.synchronous {
			text = history.CrashLossy
		}
		r.note(history.KindCrash, now.from, text)
	}
	r.sample()
	if err != nil {
		return err
	}
	now.ready = r.granted(ctx, now.to)
	r.rounds = append(r.rounds, now)
	r.t.Logf("%s, round %d: %s: %s; whole after %.1f s, every name granted again %.1f s later", r.mode.name, number, f.name, now.said,
		float64(now.to-now.from)/1e6, float64(now.ready-now.to)/1e6)
	return nil
}

func (r *run) note(kind history.Kind, from int64, text string) {
	r.noted = append(r.noted, history.Event{Kind: kind, Process: "cluster", From: from, To: clock.Now(), Text: text})
}

// sample notes the clock of the database, which is this machine's.
func (r *run) sample() {
	from := clock.Now()
	at := time.Now().UnixMicro()
	r.noted = append(r.noted, history.Event{Kind: history.KindClock, Process: "cluster", From: from, To: clock.Now(), At: at})
}

// granted waits until every name has been granted to some worker that asked after a time, and returns when that was.
func (r *run) granted(ctx context.Context, after int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		first, err := r.load.granted(after)
		require.NoError(r.t, err)
		latest := int64(0)
		for _, at := range first {
			latest = max(latest, at)
		}
		if len(first) == len(r.names) {
			return latest
		}
		require.True(r.t, sleep(ctx, 300*time.Millisecond), "of %d names only %v have been granted again", len(r.names), first)
	}
}

// judge reads what the surviving database has recorded, and judges all of it.
func (r *run) judge(ctx context.Context) {
	t := r.t
	leader, err := r.c.Whole(ctx)
	require.NoError(t, err)
	var events []history.Event
	require.NoError(t, leader.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		events, err = recorded(ctx, conn, r.mode.name)
		return err
	}))
	told, err := r.load.events()
	require.NoError(t, err)
	events = append(append(events, r.noted...), told...)
	r.keep(events)
	tally, found := cluster.Judge(events, cluster.Promise{Lossless: r.mode.synchronous})
	for _, v := range found {
		t.Errorf("%s: %v", r.mode.name, v)
	}
	t.Logf("%s: %d rounds: %+v; members made anew so far: %d", r.mode.name, len(r.rounds), tally, r.c.Reinitialized)
	t.Log(r.times(events))
	// Something happened that could have gone wrong.
	require.Greater(t, tally.Grants, 5*len(r.rounds))
	require.Greater(t, tally.Writes, 10*len(r.rounds))
}

// keep leaves the history for a reader, if the test fails or LEASEHOLD_CLUSTER_KEEP names a folder.
func (r *run) keep(events []history.Event) {
	keep := func() {
		folder := os.Getenv("LEASEHOLD_CLUSTER_KEEP")
		if folder == "" {
			folder = os.TempDir()
		}
		file, err := os.CreateTemp(folder, "leasehold-cluster-"+r.mode.name+"-*.jsonl")
		if err != nil {
			r.t.Error(err)
			return
		}
		defer file.Close()
		if err := history.Write(file, events); err != nil {
			r.t.Error(err)
		}
		r.t.Logf("%s: the history is kept: %s", r.mode.name, filepath.Clean(file.Name()))
	}
	if os.Getenv("LEASEHOLD_CLUSTER_KEEP") != "" {
		keep()
		return
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			keep()
		}
	})
}

// times says how long each kind of fault kept clients waiting: from the fault to the first commit that the next leader confirmed.
func (r *run) times(events []history.Event) string {
	acks := cluster.Acks(events)
	took := map[string][]float64{}
	for _, now := range r.rounds {
		if !now.fault.failover {
			continue
		}
		first := int64(0)
		for _, a := range acks {
			if a.Timeline > now.timeline && (first == 0 || a.To < first) {
				first = a.To
			}
		}
		seconds := float64(first-now.from) / 1e6
		took[now.fault.name] = append(took[now.fault.name], seconds)
		took["all"] = append(took["all"], seconds)
	}
	var lines []string
	for name, list := range took {
		slices.Sort(list)
		lines = append(lines, fmt.Sprintf("%s: %d failovers, median %.1f s, longest %.1f s", name, len(list), list[len(list)/2], list[len(list)-1]))
	}
	slices.Sort(lines)
	return "from the fault to the next leader's first commit: " + strings.Join(lines, "; ")
}

func timeline(ctx context.Context, m *cluster.Member) (n int64, err error) {
	err = m.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, timelineSQL).Scan(&n) })
	return n, err
}
