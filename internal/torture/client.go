package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/plan"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// How long a proxy outlives the process behind it: what it holds back of a process that was killed still arrives.
const afterlife = 3 * time.Second

// A client is a life after the other of the program.
type client struct {
	run    *run
	number int
	plan   plan.Plan

	mu    sync.Mutex
	life  *life // nil between two
	lives int
	calm  bool
}

// A life is one process, with a label, a proxy and a file of its own.
type life struct {
	label   string
	process *child
	proxy   *faultnet.Proxy
	file    string
}

func (l *life) kill() { l.process.kill() }

func newClient(r *run, number int) *client {
	who := fmt.Sprintf("client %d", number)
	return &client{run: r, number: number, plan: plan.Plan{Seed: r.options.Seed, Who: who}}
}

// present is the present life, nil between two.
func (c *client) present() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// lead leads one life after the other, until one has stood for every name after the calm, or until ctx ends, which kills it. An
// error says that a life could not be started; what is wrong with one is a failure of the run.
func (c *client) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		d := c.plan.Next()
		l, err := c.begin(d)
		if err != nil {
			return err
		}
		select {
		case <-l.process.done:
		case <-ctx.Done():
			l.kill()
			<-l.process.done
		}
		c.finish(l)
		if fault := l.process.fault(suicide(l.file)); fault != "" {
			c.run.fail("%s %s", l.label, fault)
		}
		if l.process.stood() {
			return nil
		}
		sleep(ctx, d.Between(0, 300*time.Millisecond))
	}
	return nil
}

// begin begins a life.
func (c *client) begin(d plan.Dice) (*life, error) {
	o := c.run.options
	target, pooled := o.DSN, d.IntN(3) == 0 && o.Pooler != nil
	if pooled {
		target = o.Pooler.DSN()
	}
	proxy, dsn := o.Proxy(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	label := fmt.Sprintf("c%d.%d", c.number, c.lives)
	l := &life{label: label, proxy: proxy, file: filepath.Join(c.run.dir, label+".jsonl")}
	var err error
	l.process, err = start(o.Program, protocol.Setup{
		Label:  label,
		DSN:    dsn,
		Pooled: pooled,
		File:   l.file,
		Seed:   o.Seed,
		Schema: o.Schema,
		Names:  o.Names,
		MinTTL: o.MinTTL,
		MaxTTL: o.MaxTTL,
		Watch:  o.watch(),
		Stand:  o.bound() + 5*time.Second,
		Favour: o.Favour,
	})
	if err != nil {
		return nil, err
	}
	if c.calm {
		l.process.tell(protocol.Calm)
	}
	c.life = l
	return l, nil
}

// finish is the end of a life on this side.
func (c *client) finish(l *life) {
	c.mu.Lock()
	c.life = nil
	c.mu.Unlock()
	_ = l.process.in.Close()
	c.run.book.Note(clock.Now(), history.Event{Kind: history.KindNote, Client: l.label, Text: "its process has ended"})
	c.run.burials.Go(func() {
		for end := time.Now().Add(afterlife); l.proxy.Open() > 0 && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		l.proxy.Close()
	})
}

// calmDown tells the present life, and each later one, that the faults have ended.
func (c *client) calmDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = true
	if c.life != nil {
		c.life.process.tell(protocol.Calm)
	}
}
