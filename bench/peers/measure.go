package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crowds are the numbers of clients.
var crowds = []int{1, 8, most}

// A place is a peer and a number of clients.
type place struct {
	peer    string
	clients int
}

// results are rates, cycles a second, in the order of rounds, and the errors.
type results struct {
	rates  map[place][]float64
	errors map[string]int
}

// measure goes round, each time in another order: what else happens on the machine meets all peers alike.
func measure(ctx context.Context, peers []peer, rounds int, each time.Duration) (*results, error) {
	r := &results{rates: map[place][]float64{}, errors: map[string]int{}}
	for round := range rounds {
		for _, clients := range crowds {
			for _, i := range rand.Perm(len(peers)) {
				p := peers[i]
				rate, failed, err := drive(ctx, p, clients, each)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.name, err)
				}
				at := place{p.name, clients}
				r.rates[at] = append(r.rates[at], rate)
				r.errors[p.name] += failed
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return r, ctx.Err()
}

// drive has some clients cycle for a while. An error is one cycle that does not count; only errors is none.
func drive(ctx context.Context, p peer, clients int, each time.Duration) (rate float64, failed int, err error) {
	var good, bad atomic.Int64
	var last atomic.Pointer[error]
	began := time.Now()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for time.Since(began) < each && ctx.Err() == nil {
				if err := p.cycle(ctx, i); err != nil {
					bad.Add(1)
					last.Store(&err)
					continue
				}
				good.Add(1)
			}
		})
	}
	group.Wait()
	if good.Load() == 0 && last.Load() != nil {
		return 0, 0, *last.Load()
	}
	return float64(good.Load()) / time.Since(began).Seconds(), int(bad.Load()), ctx.Err()
}

// write prints a table in Markdown. The first peer is what the others are compared with.
func (r *results) write(out io.Writer, peers []peer) {
	fmt.Fprintln(out, "Cycles a second, medians; in brackets the median of the ratios to the floor of the same round, "+
		"and their range.")
	fmt.Fprint(out, "\n| |")
	for _, clients := range crowds {
		fmt.Fprintf(out, " %d clients |", clients)
	}
	fmt.Fprintln(out, " errors |\n|---|---|---|---|---|")
	for _, p := range peers {
		fmt.Fprintf(out, "| %s |", p.name)
		for _, clients := range crowds {
			rates, floor := r.rates[place{p.name, clients}], r.rates[place{peers[0].name, clients}]
			var ratios []float64
			for i := range rates {
				ratios = append(ratios, rates[i]/floor[i])
			}
			fmt.Fprintf(out, " %.0f (%.2f, %.2f–%.2f) |", median(rates), median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
		fmt.Fprintf(out, " %d |\n", r.errors[p.name])
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
