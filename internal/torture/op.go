package torture

import "context"

// An op is a kind of operation. do draws its arguments from d, whatever the state of the client, and does nothing if
// the state does not allow it. name is drawn before.
type op struct {
	name   string
	weight int
	do     func(ctx context.Context, c *client, d dice, name string)
}

// ops are all operations. A new one is a file op_NAME.go and a line here.
var ops = []op{
	try,
	wait,
	cancelled,
	hold,
	advance,
	share,
	stale,
	release,
	releaseLate,
	abandon,
	prune,
	crash,
	closing,
}

func opWeights(options Options) []int {
	weights := make([]int, len(ops))
	for i, o := range ops {
		weights[i] = options.weigh(o.name, o.weight)
	}
	return weights
}
