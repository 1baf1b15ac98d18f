package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// jobName is what the instances compete for.
const jobName = "invoice-job"

// An instance is one process of the service. Every instance has the same timer and the same job; the lease lets
// one of them run it, and the fence refuses the writes of one that was overtaken.
type instance struct {
	setup setup
	db    *database
	locks *pglock.Client
	out   *json.Encoder

	timer    chan struct{}
	prepared chan struct{}
	tookOver atomic.Bool // the newest term is one that was taken over
}

// runInstance is the life of such a process. It ends when its standard input does: then the story is over.
func runInstance(in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	lines := bufio.NewReader(in)
	i := &instance{out: json.NewEncoder(out), timer: make(chan struct{}, 1), prepared: make(chan struct{}, 1)}
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(first, &i.setup); err != nil {
		return err
	}
	if i.db, err = openDatabase(ctx, i.setup.DSN, i.setup.Schema); err != nil {
		return err
	}
	defer i.db.pool.Close()
	config := lockConfig(i.setup)
	config.OnEvent = func(e pglock.Event) {
		if e.Kind == pglock.EventAcquired || e.Kind == pglock.EventTakenOver {
			i.tookOver.Store(e.Kind == pglock.EventTakenOver)
		}
	}
	i.locks, err = pglock.New(i.db.pool, config)
	if err != nil {
		return err
	}
	defer func() { _ = i.locks.Close(context.WithoutCancel(ctx)) }() // What cannot be released expires by itself.

	ctx, cancel := context.WithCancel(ctx)
	go func() { // Ends with standard input, or with the process.
		defer cancel()
		i.listen(lines)
	}()
	i.tell(event{Kind: eventReady})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-i.timer:
			i.runJob(ctx)
		}
	}
}

// listen takes what the story sends. A turn of the timer that comes while the job runs is dropped, as time.Ticker does.
func (i *instance) listen(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		to := i.timer
		if strings.TrimSpace(line) == lineGo {
			to = i.prepared
		}
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// lockConfig is what the library is told; what is left out has its defaults.
func lockConfig(s setup) pglock.Config {
	return pglock.Config{
		Schema:        s.Schema,
		Label:         s.Name,
		Metadata:      map[string]string{"pid": strconv.Itoa(os.Getpid())},
		TTL:           s.TTL,
		RenewInterval: s.Renew,
	}
}

// runJob is what the timer starts: take the lease, or skip the run if somebody else has it.
func (i *instance) runJob(ctx context.Context) {
	finished := false
	err := i.locks.TryDo(ctx, jobName, func(_ context.Context, lease *pglock.Lease) (err error) {
		// The context that is left aside here ends with the lease. A job that also does things outside fenced
		// transactions has to work under it, and one like this may, in order to stop early. This one goes on until the
		// fence refuses it, to show that it is the fence that protects the data: a process that was frozen between a look at
		// its context and its write would write just the same.
		finished, err = i.invoice(ctx, lease)
		return err
	})
	var held *pglock.HeldError
	var stale *fencing.StaleError
	switch {
	case finished:
		i.tell(event{Kind: eventDone})
	case errors.As(err, &stale):
		// Told where it happened.
	case errors.As(err, &held):
		i.tell(event{Kind: eventSkipped, Holder: held.Holder, Token: int64(held.Token), Left: held.TimeLeft})
	case err != nil && ctx.Err() == nil:
		i.tell(event{Kind: eventTrouble, Error: err.Error()})
	}
}

// invoice writes invoices batch by batch until no order is left. It gives up at the first refusal by the fence.
func (i *instance) invoice(ctx context.Context, lease *pglock.Lease) (finished bool, err error) {
	token := int64(lease.Token())
	i.tell(event{Kind: eventAcquired, Token: token, TookOver: i.tookOver.Load()})
	for failures := 0; ; {
		orders, err := i.db.nextOrders(ctx, i.setup.Batch)
		if err == nil && len(orders) == 0 {
			return true, nil
		}
		if err == nil {
			i.tell(event{Kind: eventRead, Token: token, Orders: orders})
			i.prepare(ctx)
			err = i.db.writeInvoices(ctx, lease, i.setup.Name, orders, i.setup.TTL)
		}
		var stale *fencing.StaleError
		switch {
		case err == nil:
			failures = 0
			i.tell(event{Kind: eventWritten, Token: token, Orders: orders})
		case errors.As(err, &stale):
			i.tell(event{Kind: eventRefused, Token: token, Fence: int64(stale.Fence), Orders: orders})
			return false, err
		case ctx.Err() != nil || failures == maxFailures:
			return false, err
		default:
			// A broken connection says nothing about the lease, and not whether the batch was written: the next read tells.
			failures++
			i.tell(event{Kind: eventTrouble, Token: token, Error: err.Error()})
			sleep(ctx, time.Duration(failures)*100*time.Millisecond)
		}
	}
}

// prepare is where a real job would make documents. The story tells when they are made, so that there is something to
// watch; this is also where it freezes or kills the process.
func (i *instance) prepare(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-i.prepared:
	}
}

// maxFailures in a row end a run; the timer starts another.
const maxFailures = 10

func (i *instance) tell(e event) {
	if err := i.out.Encode(e); err != nil {
		os.Exit(1) // Nobody listens any more.
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
