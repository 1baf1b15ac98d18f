package pglock

import (
	"time"

	"github.com/leasehold-go/leasehold/fencing"
)

// An EventKind says what happened to a lease.
type EventKind string

// The kinds of events.
const (
	EventAcquired    EventKind = "acquired"     // a term began
	EventTakenOver   EventKind = "taken over"   // a term began although the one before was never released
	EventNotAcquired EventKind = "not acquired" // somebody else has it, or nobody could be asked; Err says which
	EventRenewalLate EventKind = "renewal late" // a renewal failed; the lease lives on for TimeLeft
	EventLost        EventKind = "lost"         // the term is over against our will; Err says why
	EventReleased    EventKind = "released"     // the term was ended by its holder
)

// An Event is something that happened to a lease, for metrics and traces.
type Event struct {
	Kind     EventKind     // what happened
	Name     string        // of the lease
	Token    fencing.Token // zero if not acquired
	TimeLeft time.Duration // how long the lease is still trusted; for a held name, how long its holder has left
	Took     time.Duration // how long the question to the database took, where one was asked
	Err      error         // why, where something went wrong
}
