package torture

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A log holds what this process notes: events on its own monotonic clock, and counts.
type log struct {
	process string
	start   time.Time

	mu     sync.Mutex
	events []history.Event
	counts map[string]int
	errors []string // of the server, that no fault accounts for
}

func newLog() *log {
	return &log{process: fmt.Sprintf("pid %d", os.Getpid()), start: time.Now(), counts: map[string]int{}}
}

// now is this process's monotonic clock.
func (g *log) now() int64 { return time.Since(g.start).Microseconds() }

// note adds an event that began at from and has ended now.
func (g *log) note(from int64, e history.Event) {
	e.Process, e.From, e.To = g.process, from, g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, e)
}

// count counts something for the report.
func (g *log) count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

// taken returns copies of what was noted so far.
func (g *log) taken() (events []history.Event, counts map[string]int, errors []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.events), maps.Clone(g.counts), slices.Clone(g.errors)
}

// sampleClock compares the process's clock with the database's until ctx ends, over a connection without faults of the
// network. A frozen or restarting server gives wide samples or none, which do no harm.
func (g *log) sampleClock(ctx context.Context, dsn string) {
	for ctx.Err() == nil {
		_ = direct(ctx, dsn, func(conn *pgx.Conn) error { // Again, until the end.
			for {
				from := g.now()
				var at int64
				err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&at)
				if err != nil {
					return err
				}
				g.note(from, history.Event{Kind: history.KindClock, At: at})
				if !sleep(ctx, 100*time.Millisecond) {
					return ctx.Err()
				}
			}
		})
		sleep(ctx, 50*time.Millisecond)
	}
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
