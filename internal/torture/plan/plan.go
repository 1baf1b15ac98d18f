// Package plan is where the decisions of a torture run come from: a seed gives the same ones again.
package plan

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A Plan gives the decisions of one planner: a life of a client, or one source of faults. Each step has a source of randomness
// of its own, made of the seed, the planner and the number of the step: how many numbers a step draws, or whether it can do
// what it should, changes nothing for the next. It is not safe for concurrent use.
type Plan struct {
	Seed uint64
	Who  string // the planner
	step uint64
}

// A Dice is the randomness of one step.
type Dice struct{ *rand.Rand }

// Next is the next step.
func (p *Plan) Next() Dice {
	p.step++
	return dice(p.Seed, p.Who, p.step)
}

func dice(seed uint64, who string, step uint64) Dice {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(who)) // Never fails.
	return Dice{rand.New(rand.NewPCG(seed, sum.Sum64()+step))}
}

// Between draws a duration from low to high.
func (d Dice) Between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)+1))
}

// One draws an element.
func One[T any](d Dice, list []T) T { return list[d.IntN(len(list))] }

// Weighted draws the index of a weight, each as often as its share of the sum.
func (d Dice) Weighted(weights []int) int {
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
