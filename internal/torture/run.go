package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/notebook"
)

// The file of the run itself; each life has one that is named after it.
const ownFile = "run.jsonl"

type run struct {
	options Options
	dir     string // of the files
	book    *notebook.Notebook
	clients []*client
	burials sync.WaitGroup // proxies of lives that are over

	whole sync.Mutex // one fault of the whole server at a time; held while it lasts

	mu       sync.Mutex
	failures []string
}

// Run does random operations and faults for a while, has every client stand for every name afterwards, and returns what
// happened. It returns when all that it started has ended. An error says that it could not be done, not what it found.
func Run(ctx context.Context, options Options) (_ *Report, err error) {
	r := &run{options: options.withDefaults()}
	if err := r.options.check(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "leasehold-torture-"); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.book, err = notebook.Open(filepath.Join(r.dir, ownFile), "run"); err != nil {
		return nil, err
	}
	defer func() { _ = r.book.Close() }()
	if err := Record(ctx, r.options.DSN, r.options.Schema); err != nil {
		return nil, err
	}
	sampling, stop := context.WithCancel(ctx)
	var sampler sync.WaitGroup
	sampler.Go(func() { r.sampleClock(sampling) })
	err = r.work(ctx)
	stop()
	sampler.Wait()
	r.burials.Wait()
	if err != nil {
		return nil, err
	}
	return r.report(ctx)
}

// work has clients and faults do their work, and then the clients stand.
func (r *run) work(ctx context.Context) error {
	living, kill := context.WithCancel(ctx)
	defer kill()
	breaking, end := context.WithCancel(living)
	defer end()
	var errs []error
	var mu sync.Mutex
	failed := func(err error) {
		if err != nil {
			kill()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	for i := range r.options.Clients {
		r.clients = append(r.clients, newClient(r, i+1))
	}
	var clients, nemeses sync.WaitGroup
	for _, c := range r.clients {
		clients.Go(func() { failed(c.lead(living)) })
	}
	for _, where := range places {
		for i := range where.nemeses {
			if n := newNemesis(r, where, i+1); n != nil {
				nemeses.Go(func() { failed(n.work(breaking)) })
			}
		}
	}
	nemeses.Go(func() { r.untilDone(breaking, end) })
	nursing, unnurse := context.WithCancel(living)
	defer unnurse()
	var nurse sync.WaitGroup
	if r.options.Pooler != nil {
		nurse.Go(func() { failed(r.nurse(nursing)) })
	}
	if r.options.Enough != nil {
		nemeses.Go(func() { r.untilEnough(breaking, kill) })
	}
	<-breaking.Done()
	nemeses.Wait()
	if living.Err() == nil {
		r.stand(kill, &clients)
	}
	clients.Wait()
	unnurse()
	nurse.Wait()
	return errors.Join(errs...)
}

// untilDone ends the operations and faults when it is time.
func (r *run) untilDone(ctx context.Context, end func()) {
	defer end()
	sleep(ctx, r.options.Duration)
	for last := time.Now().Add(3 * r.options.Duration); r.options.Lacks != nil && time.Now().Before(last); {
		report, err := r.report(ctx)
		if err == nil && len(r.options.Lacks(report)) == 0 || !sleep(ctx, time.Second) {
			return
		}
	}
}

// untilEnough ends the run when the options say so.
func (r *run) untilEnough(ctx context.Context, end func()) {
	for sleep(ctx, time.Second) {
		report, err := r.report(ctx)
		if err == nil && r.options.Enough(report) { // An error: the server is away. Again later.
			end()
			return
		}
	}
}

// stand tells the clients that the faults have ended, and kills those that do not end in time.
func (r *run) stand(kill func(), clients *sync.WaitGroup) {
	r.book.Note(clock.Now(), history.Event{Kind: history.KindCalm, Left: r.options.bound().Microseconds()})
	for _, c := range r.clients {
		c.calmDown()
	}
	late := time.AfterFunc(r.options.bound()+30*time.Second, func() {
		for _, c := range r.clients {
			if l := c.present(); l != nil {
				r.fail("%s does not end", l.label)
			}
		}
		kill()
	})
	defer late.Stop()
	clients.Wait()
}

// fail notes what a client did that none may do.
func (r *run) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.book.Remark("failure: %s", text)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

// sleep waits for d. It is false if ctx ended first.
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

func said(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}
