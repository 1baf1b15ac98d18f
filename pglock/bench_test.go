package pglock_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// A stopwatch keeps the durations of one benchmark and reports percentiles.
type stopwatch struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *stopwatch) measure(f func()) {
	began := time.Now()
	f()
	took := time.Since(began)
	s.mu.Lock()
	s.times = append(s.times, took)
	s.mu.Unlock()
}

func (s *stopwatch) report(b *testing.B) {
	slices.Sort(s.times)
	b.ReportMetric(float64(s.times[len(s.times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(s.times[len(s.times)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(s.times))/b.Elapsed().Seconds(), "per-s")
}

// crowded is a client with a pool of n connections.
func crowded(b *testing.B, n int) *pglock.Client {
	dsn, schema := pgtest.Migrated(b)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(b, err)
	config.MaxConns = int32(n)
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	return clientOf(b, pool, schema, pglock.Config{})
}

// BenchmarkCycle is an acquire and a release, each goroutine with a name of its own.
func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			c := crowded(b, n)
			var watch stopwatch
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var group sync.WaitGroup
			for i := range n {
				group.Go(func() {
					name := fmt.Sprint("bench", i)
					for left.Add(-1) >= 0 {
						watch.measure(func() {
							l, err := c.TryAcquire(b.Context(), name)
							if err == nil {
								err = l.Release(b.Context())
							}
							if err != nil {
								b.Error(err)
							}
						})
					}
				})
			}
			group.Wait()
			watch.report(b)
		})
	}
}

// BenchmarkRefused is a try of a name that somebody else has.
func BenchmarkRefused(b *testing.B) {
	c := crowded(b, 1)
	_, err := c.TryAcquire(b.Context(), "n")
	require.NoError(b, err)
	var watch stopwatch
	for b.Loop() {
		watch.measure(func() {
			if _, err := c.TryAcquire(b.Context(), "n"); err == nil {
				b.Fatal("granted twice")
			}
		})
	}
	watch.report(b)
}
