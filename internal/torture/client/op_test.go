package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// TestOps_SeedReproducesThem: the same seed gives a life the same operations on the same names with the same arguments, whatever
// each of them could do.
func TestOps_SeedReproducesThem(t *testing.T) {
	t.Parallel()
	decisions := func(seed uint64, greedy bool) (list []string) {
		p := plan.Plan{Seed: seed, Who: "c1.1"}
		for i := range 200 {
			d := p.Next()
			o := ops[d.Weighted(opWeights(nil))]
			list = append(list, fmt.Sprint(o.name, " ", plan.One(d, []string{"a", "b", "c"}), " ", d.Between(0, time.Second)))
			if greedy {
				for range i {
					d.Int64()
				}
			}
		}
		return list
	}
	require.Equal(t, decisions(7, false), decisions(7, true))
	require.NotEqual(t, decisions(7, false), decisions(8, false))
}

// TestOps_EachHasItsTurn: nothing in the list is there for show.
func TestOps_EachHasItsTurn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	p := plan.Plan{Seed: 1, Who: "c1.1"}
	for range 2000 {
		seen[ops[p.Next().Weighted(opWeights(nil))].name] = true
	}
	for _, o := range ops {
		require.True(t, seen[o.name], o.name)
	}
	favoured := 0
	for range 1000 {
		if ops[p.Next().Weighted(opWeights([]string{"crash"}))].name == "crash" {
			favoured++
		}
	}
	require.Greater(t, favoured, 50, "of about 16 without")
}
