package faultnet

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Retransmission timeouts: the first, and how often it is doubled at most.
const (
	firstRetransmission = 200 * time.Millisecond
	mostRetransmissions = 5
)

// loss draws what happens to packets.
type loss struct {
	probability float64

	mu     sync.Mutex
	random *rand.Rand
}

func newLoss(probability float64, seed uint64) *loss {
	return &loss{probability: probability, random: rand.New(rand.NewPCG(seed, 0))}
}

// delay draws how late a packet is.
func (l *loss) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	late, timeout := time.Duration(0), firstRetransmission
	for range mostRetransmissions {
		if l.random.Float64() >= l.probability {
			break
		}
		late, timeout = late+timeout, timeout*2
	}
	return late
}
