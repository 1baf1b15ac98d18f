package plan

import "fmt"

// A Deck deals indexes, each as often a round as its weight, in an order that is drawn anew for every round: in the end
// each has had its turn, also what is rare. It is not safe for concurrent use.
type Deck struct {
	seed    uint64
	who     string
	weights []int
	round   uint64
	cards   []int
}

// NewDeck makes the deck of a planner.
func NewDeck(seed uint64, who string, weights []int) *Deck {
	return &Deck{seed: seed, who: fmt.Sprintf("deck of %s", who), weights: weights}
}

// Next deals one.
func (k *Deck) Next() int {
	if len(k.cards) == 0 {
		k.round++
		for i, w := range k.weights {
			for range w {
				k.cards = append(k.cards, i)
			}
		}
		dice(k.seed, k.who, k.round).Shuffle(len(k.cards), func(i, j int) {
			k.cards[i], k.cards[j] = k.cards[j], k.cards[i]
		})
	}
	card := k.cards[0]
	k.cards = k.cards[1:]
	return card
}
