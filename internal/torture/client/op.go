package main

import (
	"context"
	"slices"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// An op is a kind of operation. do draws its arguments from d, whatever the state of the client, and does nothing if
// the state does not allow it. name is drawn before.
type op struct {
	name   string
	weight int
	do     func(ctx context.Context, c *client, d plan.Dice, name string)
}

// ops are all operations. A new one is a file op_NAME.go and a line here.
var ops = []op{
	try,
	wait,
	cancelled,
	hold,
	advance,
	share,
	guarded,
	stale,
	release,
	releaseLate,
	abandon,
	prune,
	crash,
	closing,
}

// favour is how much more often what is favoured comes up.
const favour = 6

func opWeights(favoured []string) []int {
	weights := make([]int, len(ops))
	for i, o := range ops {
		weights[i] = o.weight
		if slices.Contains(favoured, o.name) {
			weights[i] *= favour
		}
	}
	return weights
}
