package fencing_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// The fences of the race test, and the forms that are used on each. A row of accepted is written after the check, under
// its row lock, so that the order of its sequence is the order of commits as far as tokens differ.
//
// Each fence has a guarded table, which every transaction writes to. Three forms are no check, and leave that to the guard:
// declare says that it passed, forget does nothing, and undo passes and rolls back to a savepoint before.
var raceFences = map[string][]string{
	"granted":   {"advance", "share", "declare", "forget", "undo"}, // raised by every grant
	"elsewhere": {"advance"},                                       // raised by its writers only
	"once":      {"strict"},                                        // the same, one transaction a token
}

// TestFence_NoLowerTokenCommitsAfterAHigherOne lets goroutines write with tokens that are current or out of date, at random
// isolation levels, with the check before or after the write, with either driver, while grants go on. The seed gives
// each goroutine's choices; how they meet is up to the machine.
func TestFence_NoLowerTokenCommitsAfterAHigherOne(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LEASEHOLD_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("LEASEHOLD_SEED=%d", seed)

	const workers, rounds = 8, 150
	r := newRace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan struct{})
	var granter, writers sync.WaitGroup
	r.grant(ctx, t) // A token that was never granted would be no stale one.
	granter.Go(func() { r.grants(ctx, t, rand.New(rand.NewPCG(seed, 0)), done) })
	for w := range workers {
		s, _ := connect(t, drivers[w%len(drivers)], r.dsn)
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w+1)))
			for round := range rounds {
				r.write(ctx, t, s, random, int64(w*rounds+round))
			}
		})
	}
	writers.Wait()
	close(done)
	granter.Wait()

	for name := range raceFences {
		tokens, ids := r.accepted(t, name)
		for i := 1; i < len(tokens); i++ {
			require.GreaterOrEqual(t, tokens[i], tokens[i-1], "%s: token %d committed after %d", name, tokens[i], tokens[i-1])
			require.False(t, name == "once" && tokens[i] == tokens[i-1], "once: token %d committed twice", tokens[i])
		}
		slices.Sort(ids)
		committed := r.committed[name]
		slices.Sort(committed)
		require.Equal(t, committed, ids, "%s: what was reported as committed is what is there", name)
		require.Equal(t, committed, r.written(t, name), "%s: and so is the business write", name)
		require.Equal(t, committed, r.guarded(t, name), "%s: and so is the write to the guarded table", name)
		count := r.outcomes[name]
		t.Logf("%s: %v, %d tokens", name, count, len(slices.Compact(tokens)))
		require.Positive(t, count["ok"], name)
		require.Positive(t, count["stale"], name)
		require.Greater(t, len(slices.Compact(tokens)), 5, name)
		if name == "granted" {
			require.Positive(t, count["error LH001"], "refused by the guard: no pass")
			require.Positive(t, count["error LH002"], "refused by the guard: stale")
		}
	}
}

// A race is the state that its goroutines share.
type race struct {
	dsn, schema string
	pool        *pgxpool.Pool
	current     atomic.Int64 // the last token granted

	mu        sync.Mutex
	committed map[string][]int64
	outcomes  map[string]map[string]int
}

func newRace(t *testing.T) *race {
	dsn, schema := pgtest.Migrated(t)
	r := &race{dsn: dsn, schema: schema, pool: pgtest.Pool(t, dsn)}
	r.committed, r.outcomes = map[string][]int64{}, map[string]map[string]int{}
	_, err := r.pool.Exec(within(t), "CREATE TABLE "+quoted(schema)+".writes (fence text NOT NULL, id bigint NOT NULL)")
	require.NoError(t, err)
	_, err = r.pool.Exec(within(t), "CREATE TABLE "+quoted(schema)+
		".accepted (seq bigserial PRIMARY KEY, fence text NOT NULL, id bigint NOT NULL, token bigint NOT NULL)")
	require.NoError(t, err)
	for name := range raceFences {
		r.outcomes[name] = map[string]int{}
		table := quoted(schema) + "." + name
		exec(t, r.pool, "CREATE TABLE "+table+" (id bigint NOT NULL)")
		require.NoError(t, pgx.BeginFunc(within(t), r.pool, func(tx pgx.Tx) error {
			return errors.Join(r.fence(name).CreateTx(within(t), tx), r.fence(name).GuardTx(within(t), tx, table))
		}))
	}
	return r
}

func (r *race) fence(name string) fencing.Fence { return fencing.Fence{Name: name, Schema: r.schema} }

// grant raises the fence as a grant does.
func (r *race) grant(ctx context.Context, t *testing.T) bool {
	var token int64
	err := r.pool.QueryRow(ctx, "UPDATE "+quoted(r.schema)+
		".job_fences SET token = token + 1 WHERE name = 'granted' RETURNING token").Scan(&token)
	if err != nil {
		t.Errorf("grant: %v", err)
		return false
	}
	r.current.Store(token)
	return true
}

// grants goes on granting, every few milliseconds.
func (r *race) grants(ctx context.Context, t *testing.T, random *rand.Rand, done <-chan struct{}) {
	for r.grant(ctx, t) {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(random.IntN(8)) * time.Millisecond):
		}
	}
}

// write is one transaction with a token that may be out of date.
func (r *race) write(ctx context.Context, t *testing.T, s session, random *rand.Rand, id int64) {
	names := slices.Sorted(maps.Keys(raceFences))
	name := names[random.IntN(len(names))]
	form := raceFences[name][random.IntN(len(raceFences[name]))]
	level, last, give := levels[random.IntN(len(levels))], random.IntN(2) == 0, random.IntN(10) == 0
	pause := time.Duration(random.IntN(2)*random.IntN(10)) * time.Millisecond
	token := max(1, fencing.Token(r.current.Load()-int64(random.IntN(3))))

	err := func() error {
		if err := s.begin(ctx, level); err != nil {
			return err
		}
		business := func() error {
			return s.scan(ctx, nil, "INSERT INTO "+quoted(r.schema)+".writes (fence, id) VALUES ($1, $2)", name, id)
		}
		if last {
			if err := business(); err != nil {
				return err
			}
		}
		if err := r.check(ctx, s, form, r.fence(name), token); err != nil {
			return err
		}
		if err := s.scan(ctx, nil, "INSERT INTO "+quoted(r.schema)+"."+name+" (id) VALUES ($1)", id); err != nil {
			return err
		}
		if !last {
			if err := business(); err != nil {
				return err
			}
		}
		time.Sleep(pause) // a writer that is slow, or paused: without a lock a grant and its writes come in between
		text := "INSERT INTO " + quoted(r.schema) + ".accepted (fence, id, token) VALUES ($1, $2, $3)"
		if err := s.scan(ctx, nil, text, name, id, int64(token)); err != nil {
			return err
		}
		if give {
			return errGiveUp
		}
		return s.commit(ctx)
	}()
	_ = s.rollback(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()
	switch result := outcome(err); {
	case err == nil && (form == "forget" || form == "undo"):
		t.Errorf("%s: committed", form)
	case result == "error LH001" && (form == "forget" || form == "undo"), result == "error LH002" && form == "declare":
		r.outcomes[name][result]++
	case err == nil:
		r.outcomes[name]["ok"]++
		r.committed[name] = append(r.committed[name], id)
	case isStale(err):
		r.outcomes[name]["stale"]++
	case result == "error 40001", errors.Is(err, errGiveUp):
		r.outcomes[name][result]++
	default:
		t.Errorf("%s %s at %s: %v", form, name, level, err)
	}
}

// check is one of the forms.
func (r *race) check(ctx context.Context, s session, form string, f fencing.Fence, token fencing.Token) error {
	switch form {
	case "declare":
		var declared string
		return s.scan(ctx, []any{&declared}, declareSQL, f.Schema, f.Name, int64(token))
	case "forget":
		return nil
	case "undo":
		if err := s.scan(ctx, nil, "SAVEPOINT s"); err != nil {
			return err
		}
		if err := s.check(ctx, "share", f, token); err != nil {
			return err
		}
		return s.scan(ctx, nil, "ROLLBACK TO s")
	}
	return s.check(ctx, form, f, token)
}

var errGiveUp = errors.New("rolled back")

// accepted are the tokens and ids of a fence in the order in which their checks passed.
func (r *race) accepted(t *testing.T, name string) (tokens, ids []int64) {
	rows, err := r.pool.Query(within(t), "SELECT token, id FROM "+quoted(r.schema)+".accepted WHERE fence = $1 ORDER BY seq", name)
	require.NoError(t, err)
	var token, id int64
	_, err = pgx.ForEachRow(rows, []any{&token, &id}, func() error {
		tokens, ids = append(tokens, token), append(ids, id)
		return nil
	})
	require.NoError(t, err)
	return tokens, ids
}

func (r *race) written(t *testing.T, name string) []int64 {
	rows, err := r.pool.Query(within(t), "SELECT id FROM "+quoted(r.schema)+".writes WHERE fence = $1 ORDER BY id", name)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return ids
}

func (r *race) guarded(t *testing.T, name string) []int64 {
	rows, err := r.pool.Query(within(t), "SELECT id FROM "+quoted(r.schema)+"."+name+" ORDER BY id")
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return ids
}
