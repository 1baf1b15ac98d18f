package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/torture/plan"
)

// TestPlan_SeedReproducesTheDecisions, however many numbers a step draws.
func TestPlan_SeedReproducesTheDecisions(t *testing.T) {
	t.Parallel()
	decisions := func(seed uint64, who string, greedy bool) (list []any) {
		p := plan.Plan{Seed: seed, Who: who}
		for i := range 200 {
			d := p.Next()
			list = append(list, d.Weighted([]int{1, 2, 3}), plan.One(d, []string{"a", "b", "c"}), d.Between(0, time.Second))
			if greedy {
				for range i {
					d.Int64()
				}
			}
		}
		return list
	}
	require.Equal(t, decisions(7, "c1.1", false), decisions(7, "c1.1", true))
	require.NotEqual(t, decisions(7, "c1.1", false), decisions(8, "c1.1", false))
	require.NotEqual(t, decisions(7, "c1.1", false), decisions(7, "c2.1", false))
	require.NotEqual(t, decisions(7, "c1.1", false), decisions(7, "c1.2", false))
}

// TestDeck_DealsEachAsOftenAsItsWeight, in every round, and in an order that the seed gives.
func TestDeck_DealsEachAsOftenAsItsWeight(t *testing.T) {
	t.Parallel()
	round := func(k *plan.Deck) (cards []int) {
		for range 6 {
			cards = append(cards, k.Next())
		}
		return cards
	}
	a, b := plan.NewDeck(7, "n", []int{3, 0, 1, 2}), plan.NewDeck(7, "n", []int{3, 0, 1, 2})
	orders := map[string]bool{}
	for range 20 {
		cards := round(a)
		require.Equal(t, cards, round(b))
		orders[string([]byte{byte(cards[0]), byte(cards[1]), byte(cards[2])})] = true
		slices.Sort(cards)
		require.Equal(t, []int{0, 0, 0, 2, 3, 3}, cards)
	}
	require.Greater(t, len(orders), 1)
}
