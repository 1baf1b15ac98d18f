package faultnet

import "time"

// Flow is what happens to the bytes of one direction. The zero value lets them pass.
type Flow struct {
	kind  kind
	delay time.Duration
	loss  *loss
}

type kind int

const (
	pass kind = iota
	hold
	swallow
)

// Late lets bytes pass d after they arrived, in order. It delays and does not throttle: many may be under way.
func Late(d time.Duration) Flow { return Flow{delay: d} }

// Held keeps bytes back until the mode changes, and delivers them then: a partition that TCP outlives by sending again.
func Held() Flow { return Flow{kind: hold} }

// Swallowed throws bytes away without a sign. The rest of a torn stream would be nonsense, so a connection that has
// lost bytes in a direction stays silent in that direction for good; new connections are not affected.
func Swallowed() Flow { return Flow{kind: swallow} }

// Lossy loses packets with the given probability, as seen through TCP: nothing is missing in the end, but what was lost is sent again
// after 200 ms (Linux's least retransmission timeout), after twice as long if that is lost too, and so on, and all that follows
// waits. Whether it is lost is drawn for what was read at once. The seed gives the draws.
func Lossy(probability float64, seed uint64) Flow { return Flow{loss: newLoss(probability, seed)} }

// Mode is the state of a [Proxy]: one [Flow] a direction, and what new connections meet. The zero value is Pass.
type Mode struct {
	// Requests is the flow from client to server.
	Requests Flow

	// Replies is the flow from server to client.
	Replies Flow

	// Refuse refuses new connections ("connection refused"). Open ones go on.
	Refuse bool
}

// Pass lets everything through.
func Pass() Mode { return Mode{} }

// BlackHole accepts connections and swallows both directions, without a reset. The end of a connection is swallowed
// as well: the server learns that its client has gone only when the mode changes.
func BlackHole() Mode { return Mode{Requests: Swallowed(), Replies: Swallowed()} }

// Hold keeps back both directions, the end of a connection too, until the mode changes.
func Hold() Mode { return Mode{Requests: Held(), Replies: Held()} }

// DropReplies passes requests and swallows replies: the server works, and nobody hears of it.
func DropReplies() Mode { return Mode{Replies: Swallowed()} }

// Refuse refuses new connections. Open ones go on; see [Proxy.Reset].
func Refuse() Mode { return Mode{Refuse: true} }

// Delay makes both directions late by d, a round trip by twice d.
func Delay(d time.Duration) Mode { return Mode{Requests: Late(d), Replies: Late(d)} }

// Loss makes both directions [Lossy].
func Loss(probability float64, seed uint64) Mode {
	return Mode{Requests: Lossy(probability, seed), Replies: Lossy(probability, seed+1)}
}
