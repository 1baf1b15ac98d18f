package torture

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A plan gives the decisions of one client or of the source of faults. Each step has a source of randomness of its own,
// made of the seed, the planner and the number of the step: how many numbers a step draws, or whether it can do what it
// should, changes nothing for the next.
type plan struct {
	seed uint64
	who  string
	step uint64
}

// A dice is the randomness of one step.
type dice struct{ *rand.Rand }

func (p *plan) next() dice {
	p.step++
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(p.who)) // Never fails.
	return dice{rand.New(rand.NewPCG(p.seed, sum.Sum64()+p.step))}
}

// between draws a duration from low to high.
func (d dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

// one draws an element.
func one[T any](d dice, list []T) T { return list[d.IntN(len(list))] }

// weighted draws the index of a weight, each as often as its share of the sum.
func (d dice) weighted(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := d.IntN(sum)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	panic("unreachable: n is below the sum")
}
