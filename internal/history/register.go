package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A move is one operation on the register of a lock, with the window in which it took effect.
type move struct {
	kind  moveKind
	token int64
	from  int64 // the machine's clock
	to    int64
	// pending: at the end of a history that was cut, it may have taken effect or not.
	pending bool
	event   Event // that shows it
}

// A moveKind says what was done to the register, or seen in it.
type moveKind int

const (
	granted    moveKind = iota // a term begins
	released                   // it is ended by its holder, or for it
	sawHeld                    // somebody is told that the holder has the token, or trusts it itself
	wrote                      // a fenced write passes
	refused                    // a fenced write is refused
	raised                     // the fence is raised without a grant
	renumbered                 // an operator gives the row of a term a higher token
)

// String implements fmt.Stringer.
func (m move) String() string {
	who := m.event.Client
	if who == "" {
		who = m.event.By
	}
	switch m.kind {
	case granted:
		return fmt.Sprintf("%q is granted token %d", who, m.token)
	case released:
		return fmt.Sprintf("token %d of %q is released", m.token, who)
	case sawHeld:
		if m.event.Kind == KindTrusts {
			return fmt.Sprintf("%q trusts token %d", who, m.token)
		}
		return fmt.Sprintf("%q is told that token %d holds", who, m.token)
	case wrote:
		return fmt.Sprintf("%q writes with token %d", who, m.token)
	case refused:
		return fmt.Sprintf("%q is refused with token %d", who, m.token)
	case raised:
		return fmt.Sprintf("%q raises the fence to %d", who, m.token)
	default:
		return fmt.Sprintf("%q gives the row token %d", who, m.token)
	}
}

// changes tells whether a move leaves a trace in the register.
func (m move) changes() bool { return m.kind != sawHeld && m.kind != refused && m.kind != wrote }

// A register is the state of one name: who holds it, and how high its fence is.
type register struct {
	token int64 // of the last grant
	held  bool  // not released; a term that has run out counts until the next grant
	fence int64 // if it is higher than the token
	floor int64 // the next grant is above it, whatever the register has forgotten
	open  bool  // what is held is not known: a failover may have gone back by any number of commits
}

// registerModel is the sequential specification of a lock. A term ends by its release; or by its expiry, which may come at any
// time from expiry[token] on: a grant over a term that was not released must have ended after that.
func registerModel(first register, expiry map[int64]int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, input, _ any) (bool, any) {
			r, m := state.(register), input.(move)
			next, ok := r.step(m, expiry)
			return ok || m.pending, next
		},
		DescribeOperation: func(input, _ any) string { return input.(move).String() },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state.(register)) },
	}
}

// step makes a move. Not ok: it does not fit, and the register stays as it was.
func (r register) step(m move, expiry map[int64]int64) (next register, ok bool) {
	top := max(r.token, r.fence)
	switch m.kind {
	case granted:
		if m.token <= max(top, r.floor) || r.held && !expired(expiry, r.token, m.to) {
			return r, false
		}
		return register{token: m.token, held: true, floor: r.floor}, true
	case released, sawHeld:
		if r.open && m.token >= r.token {
			r.open, r.token, r.held = false, m.token, true
		}
		if !r.held || r.token != m.token {
			return r, false
		}
		r.held = m.kind == sawHeld
		return r, true
	case wrote:
		if m.token < top {
			return r, false
		}
		return r.raise(m.token), true
	case refused:
		return r, r.open || m.token < top
	case raised:
		return r.raise(m.token), true
	default:
		if m.token <= r.token {
			return r, false
		}
		r.token = m.token // Held or not, as before: an operator may raise a free row, too.
		return r, true
	}
}

// raise lifts the fence. At or below the token there is nothing to remember.
func (r register) raise(token int64) register {
	if token > max(r.token, r.fence) {
		r.fence = token
	}
	return r
}

// expired tells whether a term may have run out by a time. Of a term that the record does not have nothing is known.
func expired(expiry map[int64]int64, token, by int64) bool {
	at, known := expiry[token]
	return !known || at <= by
}
