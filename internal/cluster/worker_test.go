//go:build linux

package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/cluster"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/notebook"
	"github.com/leasehold-go/leasehold/pglock"
)

// envWorker has the test binary be a worker: a service with a client of ours. It reads its orders from standard input, and
// ends with it.
const envWorker = "LEASEHOLD_CLUSTER_WORKER"

// orders are what a worker is told, as one line of JSON.
type orders struct {
	DSN    string // of all members
	Schema string
	Label  string
	Names  []string
	TTL    time.Duration
	Seed   uint64
	File   string // of its history
}

// requestTimeout leaves room for two hosts that do not answer, each for the second that the connection string gives it.
const requestTimeout = 4 * time.Second

// roleWorker is the worker's main.
func roleWorker() int {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err == nil {
		var o orders
		if err = json.Unmarshal(line, &o); err == nil {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				defer cancel()
				_, _ = io.Copy(io.Discard, in) // Until its end.
			}()
			err = work(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A worker acquires, writes under its lease and after it, and releases, one name after the other.
type worker struct {
	orders
	pool  *pgxpool.Pool
	locks *pglock.Client
	dice  *rand.Rand
	book  *notebook.Notebook
	over  map[string]*pglock.Lease // the last one of each name

	writes atomic.Int64
}

func work(ctx context.Context, o orders) error {
	config, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["application_name"] = o.Label
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	locks, err := pglock.New(pool, pglock.Config{
		Schema: o.Schema, Label: o.Label, TTL: o.TTL, RenewInterval: time.Second, RequestTimeout: requestTimeout, Margin: 500 * time.Millisecond,
		PollInterval: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	book, err := notebook.Open(o.File, o.Label)
	if err != nil {
		return err
	}
	defer func() { _ = book.Close() }()
	w := &worker{orders: o, pool: pool, locks: locks, book: book, over: map[string]*pglock.Lease{}, dice: rand.New(rand.NewPCG(o.Seed, 0))}
	for ctx.Err() == nil {
		w.turn(ctx, o.Names[w.dice.IntN(len(o.Names))])
		_ = sleep(ctx, time.Duration(w.dice.Int64N(int64(60*time.Millisecond))))
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = locks.Close(closing) // The cluster may not answer just now.
	return nil
}

// turn is one acquire and what follows from it.
func (w *worker) turn(ctx context.Context, name string) {
	lease := w.acquire(ctx, name)
	if lease == nil {
		if before := w.over[name]; before != nil && w.dice.IntN(3) == 0 {
			w.write(before, 0) // As one who was paused for long: refused, if anybody was granted the name since.
		}
		return
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.watch(watching, lease) })
	for range w.dice.IntN(8) {
		if lease.Err() != nil {
			break
		}
		pause := time.Duration(w.dice.Int64N(int64(80 * time.Millisecond)))
		switch w.dice.IntN(4) {
		case 0: // Several transactions at once, in the shared form.
			var group sync.WaitGroup
			for i := range 3 {
				group.Go(func() { w.write(lease, i+1) })
			}
			group.Wait()
		case 1:
			w.write(lease, 1)
		default:
			w.write(lease, 0)
		}
		_ = sleep(ctx, pause)
	}
	stop()
	watch.Wait()
	w.release(lease)
	w.over[name] = lease
	if w.dice.IntN(4) == 0 {
		w.write(lease, 0) // Nobody may have been granted it yet; then it passes.
	}
}

func (w *worker) acquire(ctx context.Context, name string) *pglock.Lease {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	from := clock.Now()
	var lease *pglock.Lease
	var err error
	if w.dice.IntN(3) == 0 {
		lease, err = w.locks.Acquire(ctx, name)
	} else {
		lease, err = w.locks.TryAcquire(ctx, name)
	}
	answer := history.Event{Kind: history.KindAnswer, Name: name, Text: history.AnswerUnknown}
	var held *pglock.HeldError
	switch {
	case err == nil:
		answer.Token, answer.Text = int64(lease.Token()), history.AnswerGranted
	case errors.As(err, &held) && held.Busy:
		answer.Text = history.AnswerBusy
	case errors.As(err, &held) && ctx.Err() == nil:
		answer.Seen, answer.Text = int64(held.Token), history.AnswerHeld
	case errors.As(err, &held):
		answer.Seen, answer.Text = int64(held.Token), history.AnswerGaveUp
	default:
		answer.Text += ": " + err.Error()
	}
	w.book.Note(from, answer)
	if err != nil {
		return nil
	}
	from = clock.Now()
	w.book.Note(from, history.Event{Kind: history.KindGranted, Name: name, Token: int64(lease.Token()), Left: lease.TimeLeft().Microseconds()})
	return lease
}

// watch notes again and again that the lease is trusted.
func (w *worker) watch(ctx context.Context, lease *pglock.Lease) {
	for sleep(ctx, 100*time.Millisecond) {
		from := clock.Now()
		left, err := lease.TimeLeft(), lease.Err()
		if err != nil {
			return
		}
		w.book.Note(from, history.Event{Kind: history.KindTrusts, Name: lease.Name(), Token: int64(lease.Token()), Left: left.Microseconds()})
	}
}

func (w *worker) release(lease *pglock.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	e := history.Event{Name: lease.Name(), Token: int64(lease.Token())}
	if err := lease.Err(); err != nil {
		e.Kind, e.Text = history.KindEnded, err.Error()
		w.book.Note(clock.Now(), e)
	}
	from := clock.Now()
	err := lease.Release(ctx)
	ended := e
	ended.Kind, ended.Text = history.KindEnded, "released"
	w.book.Note(clock.Now(), ended)
	e.Kind = history.KindReleased
	switch {
	case err == nil:
		e.Text = history.ReleaseDone
	case errors.Is(err, pglock.ErrLost):
		e.Text = history.ReleaseLost + ": " + err.Error()
	default:
		e.Text = history.ReleaseUnknown + ": " + err.Error()
	}
	w.book.Note(from, e)
}

// write is one fenced transaction: in the exclusive form, or, with a number, in the shared one. What confirms or refuses it is noted
// with the timeline of the server that did.
func (w *worker) write(lease *pglock.Lease, shared int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	e := history.Event{
		Name: lease.Name(), Token: int64(lease.Token()), Write: fmt.Sprintf("%s.%s.%d", w.Schema, w.Label, w.writes.Add(1)),
	}
	from := clock.Now()
	var timeline int64
	committing := false
	err := func() error {
		tx, err := w.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := tx.QueryRow(ctx, timelineSQL).Scan(&timeline); err != nil {
			return err
		}
		// The fence's own checks, not the lease's: those ask first whether the holder knows that it is none any more.
		if shared > 0 {
			err = lease.Fence().ShareTx(ctx, tx, lease.Token())
		} else {
			err = lease.Fence().AdvanceTx(ctx, tx, lease.Token())
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO "+pgx.Identifier{w.Schema, "writes"}.Sanitize()+" (id, name, token) VALUES ($1, $2, $3)",
			e.Write, e.Name, e.Token)
		if err != nil {
			return err
		}
		committing = true
		return tx.Commit(ctx)
	}()
	var stale *fencing.StaleError
	switch {
	case err == nil:
		e.Kind, e.Text = history.KindWrote, cluster.TimelineText(timeline)
	case errors.As(err, &stale):
		e.Kind, e.Text = history.KindRefused, cluster.TimelineText(timeline)
	case committing:
		e.Kind, e.Text = history.KindUnknown, err.Error()
	default:
		e.Kind, e.Text = history.KindNote, "write broken off: "+err.Error()
	}
	w.book.Note(from, e)
}

// timelineSQL is the timeline that the server writes to. A standby refuses the question.
const timelineSQL = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint"

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
