package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

var errUnfinished = errors.New("orders are left without an invoice")

// A story starts instances of the job, is the timer of all of them, lets misfortune happen to the one that works, and
// follows what they tell until every order has its invoice.
type story struct {
	options options
	report  *report
	db      *database
	dsn     string
	effort  time.Duration // of an instance for a batch

	processes []*process
	messages  chan message

	holder *process // who works, as far as it told
	terms  []*term  // in the order of their tokens
	open   int      // orders without an invoice
	all    int      // orders

	freezeAt, killAt int // orders done when it happens to the holder; never: -1
	frozen           *misfortune
	done             bool // somebody found nothing left to invoice

	refused, skipped int
	told             map[string]bool // skips that were printed
	early            []message       // skips because of a term that nobody told of yet
	patience         time.Time       // until when something has to happen
	trouble          string          // the last one
}

// A term is one hold of the lease, for the summary.
type term struct {
	token  int64
	holder string
	end    string
}

// A misfortune is a holder that was frozen, until its write is refused.
type misfortune struct {
	process *process
	token   int64
	since   time.Time
	woken   bool
	written int // invoices with its token when it was woken up
}

// stalled bounds how long nothing may happen.
const stalled = 30 * time.Second

// play runs from the first timer to the last invoice. The processes are gone when it returns.
func (s *story) play(ctx context.Context) error {
	s.messages = make(chan message, 64)
	s.told = map[string]bool{}
	s.patience = time.Now().Add(stalled)
	defer s.end()
	for range s.options.instances {
		if err := s.start(); err != nil {
			return err
		}
	}
	timer := time.NewTicker(min(s.options.ttl/2, 5*time.Second))
	defer timer.Stop()
	for !s.done || s.frozen != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if time.Now().After(s.patience) {
				return fmt.Errorf("nothing happens any more: %w: %s", errUnfinished, s.trouble)
			}
			s.fire()
		case m := <-s.messages:
			if err := s.hear(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// start adds one instance.
func (s *story) start() error {
	p, err := startProcess(setup{
		Name:   fmt.Sprintf("instance-%d", len(s.processes)+1),
		DSN:    s.dsn,
		Schema: s.db.schema,
		TTL:    s.options.ttl,
		Renew:  s.options.renew,
		Batch:  s.options.batch,
	}, s.messages)
	if p != nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// fire is the timer: it starts the job on every instance that does not run it.
func (s *story) fire() {
	for _, p := range s.processes {
		if p.awake() && !p.ready {
			return // Some are starting: all are to have the same chance.
		}
	}
	for _, p := range s.processes {
		if p.awake() && p != s.holder {
			p.tell(lineTick)
		}
	}
}

// hear takes one message.
func (s *story) hear(ctx context.Context, m message) error {
	p, e := m.from, m.event
	if m.ended {
		return s.buried(p, m.err)
	}
	switch e.Kind {
	case eventReady:
		p.ready = true
		if n := s.awake(); n == s.options.instances && len(s.terms) == 0 && s.ready() == n {
			s.report.say("timer", "starts the job on %s", count(n, "instance"))
			s.fire()
		}
	case eventSkipped:
		s.skip(p, e)
	case eventAcquired:
		return s.acquired(ctx, p, e)
	case eventRead:
		return s.mishap(p, e)
	case eventWritten:
		return s.counted(ctx, p)
	case eventRefused:
		return s.refusal(ctx, p, e)
	case eventDone:
		return s.finished(ctx, p)
	case eventTrouble:
		first, _, _ := strings.Cut(e.Error, "\n")
		known := first == s.trouble
		s.trouble = first
		if s.holder == p && e.Token == 0 {
			s.holder = nil // It has given up; its next timer starts it again.
		}
		if !known {
			s.report.say(p.name, "has trouble: %s", strings.TrimSuffix(first, ":"))
		}
	}
	return nil
}

// skip tells of an instance that was told who holds the lease: once for each term, or there would be no end.
func (s *story) skip(p *process, e event) {
	s.skipped++
	s.trouble = fmt.Sprintf("held by %q with token %d", e.Holder, e.Token)
	key := fmt.Sprint(p.name, e.Token)
	if s.told[key] {
		return
	}
	s.told[key] = true
	if len(s.terms) == 0 || s.terms[len(s.terms)-1].token < e.Token {
		s.early = append(s.early, message{from: p, event: e})
		return
	}
	s.tellSkip(p, e)
}

func (s *story) tellSkip(p *process, e event) {
	if e.Holder == "" {
		s.report.say(p.name, "skips: the lease is being taken at this moment")
		return
	}
	s.report.say(p.name, "skips: %s holds the lease with token %d, %s left", e.Holder, e.Token, seconds(e.Left))
	s.wait(e.Left)
}

func (s *story) acquired(ctx context.Context, p *process, e event) error {
	s.wait(0)
	p.term = &term{token: e.Token, holder: p.name}
	s.terms = append(s.terms, p.term)
	// Two processes may tell of short terms in the other order.
	slices.SortFunc(s.terms, func(a, b *term) int { return cmp.Compare(a.token, b.token) })
	if newest := s.terms[len(s.terms)-1]; newest == p.term {
		s.holder = p
	}
	if e.TookOver {
		s.report.say(p.name, "takes over with token %d: the lease of %s had run out", e.Token, s.before(e.Token))
	} else {
		s.report.say(p.name, "acquires the lease with token %d", e.Token)
	}
	for _, m := range s.early {
		s.tellSkip(m.from, m.event)
	}
	s.early = nil
	if s.frozen != nil && !s.frozen.woken && p != s.frozen.process {
		return s.wake(ctx)
	}
	return nil
}

// before names the holder of the term before the one with this token.
func (s *story) before(token int64) string {
	name := "an earlier run"
	for _, t := range s.terms {
		if t.token < token {
			name = t.holder
		}
	}
	return name
}

// mishap lets the process go on to write the batch that it has read, or freezes or kills it at this point if its time
// has come.
func (s *story) mishap(p *process, e event) error {
	reached := s.all - s.open + len(e.Orders)
	switch {
	case p != s.holder:
	case s.freezeAt >= 0 && reached > s.freezeAt:
		s.freezeAt = -1
		s.frozen = &misfortune{process: p, token: e.Token, since: time.Now()}
		s.holder = nil
		p.term.end = "frozen"
		s.report.say(p.name, "is frozen (SIGSTOP): %s read, not yet written", count(len(e.Orders), "order"))
		if err := p.freeze(); err != nil {
			return err
		}
		return s.supervise()
	case s.killAt >= 0 && reached > s.killAt && s.freezeAt < 0 && s.frozen == nil:
		s.killAt = -1
		p.term.end = "killed"
		s.report.say(p.name, "is killed (kill -9): %s read, not yet written", count(len(e.Orders), "order"))
		return p.kill()
	}
	time.AfterFunc(s.effort, func() { p.tell(lineGo) })
	return nil
}

// wake lets the frozen holder go on. It believes that nothing happened, and writes.
func (s *story) wake(ctx context.Context) error {
	f := s.frozen
	var err error
	if f.written, _, err = s.db.writtenBy(ctx, f.token); err != nil {
		return err
	}
	f.woken = true
	s.wait(0)
	s.report.say(f.process.name, "wakes up (SIGCONT) after %s and writes on with token %d", seconds(time.Since(f.since)), f.token)
	f.process.tell(lineGo)
	return f.process.wake()
}

// refusal checks in the database that nothing was written.
func (s *story) refusal(ctx context.Context, p *process, e event) error {
	s.refused++
	open, err := s.db.without(ctx, e.Orders)
	if err != nil {
		return err
	}
	written, _, err := s.db.writtenBy(ctx, e.Token)
	if err != nil {
		return err
	}
	s.report.say("the fence", "refuses token %d, being at %d: nothing is written", e.Token, e.Fence)
	if open > 0 {
		// So it cannot have been the primary key of the invoices that refused them.
		s.report.say("", "(no unique key did that: %s had no invoice yet)", count(open, "order"))
	}
	p.term.end = strings.TrimPrefix(p.term.end+", then refused by the fence", ", then ")
	if s.holder == p {
		s.holder = nil
	}
	if f := s.frozen; f != nil && f.process == p && f.token == e.Token {
		s.frozen = nil
		if written != f.written {
			return fmt.Errorf("%d invoices carry token %d, %d before it was refused", written, e.Token, f.written)
		}
	}
	return nil
}

// counted asks the database how far the job is. What is told of could get lost with the process that tells it.
func (s *story) counted(ctx context.Context, p *process) (err error) {
	s.wait(0)
	s.open, s.all, err = s.db.open(ctx)
	if err == nil {
		s.report.progress(s.all-s.open, s.all, p.name)
	}
	return err
}

func (s *story) finished(ctx context.Context, p *process) error {
	if s.holder == p {
		s.holder = nil
	}
	p.term.end = "released"
	s.report.say(p.name, "finds no order without an invoice and releases the lease")
	if err := s.counted(ctx, p); err != nil {
		return err
	}
	s.done = s.open == 0
	return nil
}

// supervise starts another process if none is left that could go on.
func (s *story) supervise() error {
	if s.awake() > 0 {
		return nil
	}
	return s.start()
}

// buried notes the end of a process.
func (s *story) buried(p *process, err error) error {
	p.dead = true
	if s.holder == p {
		s.holder = nil
	}
	if s.frozen != nil && s.frozen.process == p {
		s.frozen = nil
	}
	if !p.killed {
		if !p.ready {
			return fmt.Errorf("%s could not start: %w", p.name, err)
		}
		if p.term != nil && p.term.end == "" {
			p.term.end = "died"
		}
		s.report.say(p.name, "has died: %v", err)
	}
	return s.supervise()
}

// end stops every process. One that works has a second to release its lease, so that it is not in the way of the next
// run; a frozen one cannot.
func (s *story) end() {
	for _, p := range s.processes {
		_ = p.in.Close()
		if p.frozen {
			_ = p.kill()
		}
	}
	deadline := time.After(time.Second)
	for number(s.processes, (*process).alive) > 0 {
		select {
		case m := <-s.messages:
			m.from.dead = m.from.dead || m.ended
		case <-deadline:
			for _, p := range s.processes {
				_ = p.kill()
			}
		}
	}
	s.report.endProgress()
}

// wait renews the patience.
func (s *story) wait(longer time.Duration) {
	s.patience = time.Now().Add(longer + stalled + 3*s.options.ttl)
}

// awake is how many processes could run the job.
func (s *story) awake() int {
	return number(s.processes, (*process).awake)
}

// ready is how many of them have started.
func (s *story) ready() int {
	return number(s.processes, func(p *process) bool { return p.awake() && p.ready })
}

func number(processes []*process, which func(*process) bool) int {
	n := 0
	for _, p := range processes {
		if which(p) {
			n++
		}
	}
	return n
}

// chance plans the misfortunes: a random order in the middle of those that are open, the second after the first.
func (s *story) chance() {
	s.freezeAt, s.killAt = -1, -1
	at := func(from, to float64) int {
		return s.all - s.open + int(float64(s.open)*(from+rand.Float64()*(to-from)))
	}
	if s.open > 0 && s.options.freeze {
		s.freezeAt = at(0.2, 0.5)
	}
	if s.open > 0 && s.options.kill {
		s.killAt = at(0.5, 0.8)
	}
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
