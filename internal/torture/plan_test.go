package torture

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPlan_SeedReproducesTheDecisions: the same seed gives the same operations on the same names with the same
// arguments, however many numbers a step draws.
func TestPlan_SeedReproducesTheDecisions(t *testing.T) {
	decisions := func(seed uint64, who string, greedy bool) (list []string) {
		p := plan{seed: seed, who: who}
		for i := range 200 {
			d := p.next()
			o := ops[d.weighted(opWeights(Options{}))]
			list = append(list, fmt.Sprint(o.name, " ", one(d, []string{"a", "b", "c"}), " ", d.between(0, time.Second)))
			if greedy {
				for range i {
					d.Int64()
				}
			}
		}
		return list
	}
	require.Equal(t, decisions(7, "client 1", false), decisions(7, "client 1", true))
	require.NotEqual(t, decisions(7, "client 1", false), decisions(8, "client 1", false))
	require.NotEqual(t, decisions(7, "client 1", false), decisions(7, "client 2", false))
}

// TestPlan_EveryKindHasItsTurn: nothing in the lists is there for show.
func TestPlan_EveryKindHasItsTurn(t *testing.T) {
	seen := map[string]bool{}
	p := plan{seed: 1, who: "client 1"}
	for range 2000 {
		seen[ops[p.next().weighted(opWeights(Options{}))].name] = true
	}
	for _, o := range ops {
		require.True(t, seen[o.name], o.name)
	}
	favoured := 0
	for range 1000 {
		if ops[p.next().weighted(opWeights(Options{Favour: []string{"crash"}}))].name == "crash" {
			favoured++
		}
	}
	require.Greater(t, favoured, 50, "of about 16 without")
	places := map[place]bool{}
	for _, f := range faults {
		require.Positive(t, f.weight, f.name)
		places[f.where] = true
	}
	require.Len(t, places, 3)
}
