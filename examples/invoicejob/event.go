package main

import "time"

// An event is what an instance tells the story: one line of JSON on its standard output.
type event struct {
	Kind     eventKind     `json:"event"`
	Token    int64         `json:"token,omitempty"`     // of the instance's term; of the other holder, if skipped
	TookOver bool          `json:"took_over,omitempty"` // the term before was never released
	Fence    int64         `json:"fence,omitempty"`     // value of the fence, if refused
	Holder   string        `json:"holder,omitempty"`    // who has the lease, if skipped; empty: not known
	Left     time.Duration `json:"left,omitempty"`      // until that lease runs out, nanoseconds
	Orders   []int64       `json:"orders,omitempty"`    // of the batch
	Error    string        `json:"error,omitempty"`
}

type eventKind string

const (
	eventReady    eventKind = "ready"    // started, waits for its timer
	eventAcquired eventKind = "acquired" // a term began
	eventSkipped  eventKind = "skipped"  // somebody else has the lease
	eventRead     eventKind = "read"     // a batch was read and is being prepared
	eventWritten  eventKind = "written"  // its transaction has committed
	eventRefused  eventKind = "refused"  // its transaction was refused by the fence
	eventDone     eventKind = "done"     // no order is left; the lease is released
	eventTrouble  eventKind = "trouble"  // the database could not be asked; without a token: the run is given up
)

// A setup is the first line on an instance's standard input. It is there, not among the arguments, because a connection
// string may have a password and arguments can be seen by everybody on the machine.
type setup struct {
	Name   string        `json:"name"`
	DSN    string        `json:"dsn"`
	Schema string        `json:"schema"`
	TTL    time.Duration `json:"ttl"`
	Renew  time.Duration `json:"renew"`
	Batch  int           `json:"batch"`
}

// The further lines that an instance is sent.
const (
	lineTick = "tick" // its timer fires
	lineGo   = "go"   // the batch that it read is prepared
)
