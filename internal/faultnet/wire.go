package faultnet

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Fault is what happens to a round trip of a [Wire].
type Fault struct {
	kind  faultKind
	delay time.Duration
}

type faultKind int

const (
	noFault faultKind = iota
	beforeSend
	afterSend
	lateReply
)

// BeforeSend breaks the connection and sends nothing: the server never hears of the round trip.
func BeforeSend() Fault { return Fault{kind: beforeSend} }

// AfterSend sends, waits until the server has finished (a COMMIT has committed), throws the reply away and breaks the
// connection.
func AfterSend() Fault { return Fault{kind: afterSend} }

// LateReply delivers the reply no sooner than d after sending. Deadlines and contexts of the caller work meanwhile.
func LateReply(d time.Duration) Fault { return Fault{kind: lateReply, delay: d} }

// Wire makes connections for pgx and breaks one of their round trips. A round trip is a write that ends in a Query or
// a Sync message, after which the client has nothing to do but wait; connecting and authenticating do not count,
// preparing a statement does. Trips are counted over all connections of a Wire.
//
// The connections must not be encrypted (sslmode=disable): Wire looks for message boundaries.
//
// The zero value breaks nothing. It is safe for concurrent use.
type Wire struct {
	mu    sync.Mutex
	trips int
	at    int // the trip that fault is for; 0: none
	fault Fault
	fired bool
}

// Dial returns a dialer for pgx: config.DialFunc = wire.Dial(config.DialFunc).
func (w *Wire) Dial(next pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newWireConn(w, conn), nil
	}
}

// Fail plans a fault for the n-th round trip from now: 1 is the next one. It replaces an earlier plan.
func (w *Wire) Fail(n int, fault Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.fault, w.fired = w.trips+n, fault, false
}

// Heal forgets the plan.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
}

// Fired says whether the planned round trip has come. A loop over n ends when it has not.
func (w *Wire) Fired() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired
}

// Trips counts the round trips since the start, the broken ones too.
func (w *Wire) Trips() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips
}

// next counts a round trip and returns what happens to it.
func (w *Wire) next() Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips++
	if w.trips != w.at {
		return Fault{}
	}
	w.fired = true
	return w.fault
}
