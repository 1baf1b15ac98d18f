package control

import "time"

// EnvWorker in its environment makes the program a worker.
const EnvWorker = "LEASEHOLD_CONTROL_WORKER"

// A Setup is the first line on a worker's standard input.
type Setup struct {
	DSN    string
	Regime Regime
	Nodes  []string // sockets of the Redis nodes
	Label  string
	Name   string // of the lock and the account
	TTL    time.Duration
}

// A Step is a place in a worker's turn where a fault can be put.
type Step string

// The steps.
const (
	None   Step = ""
	Read   Step = "read"   // the value was read, the lock not asked yet
	Asked  Step = "asked"  // the lock was asked, and nothing is written yet
	Wrote  Step = "wrote"  // the transaction has written, and COMMIT is not sent yet
	Commit Step = "commit" // COMMIT was sent, and has not arrived yet
)

// Steps are all of them, in order.
func Steps() []Step { return []Step{Read, Asked, Wrote, Commit} }

// A command is a further line: a turn, or to go on from the step where the turn waits.
type command struct {
	Turn *turn `json:",omitempty"`
}

// A turn is one read-modify-write under the lock.
type turn struct {
	Round int
	Stop  Step // to wait for the next command
}

// An eventKind says what happened.
type eventKind string

const (
	isReady    eventKind = "ready"
	isGranted  eventKind = "granted"
	isRenewed  eventKind = "renewed"  // at any time between granted and released
	isStopping eventKind = "stopping" // at the step where it was to wait
	isSending  eventKind = "sending"  // COMMIT comes next
	isOver     eventKind = "over"     // the write, whichever way
	isReleased eventKind = "released"
)

// An event is a line on a worker's standard output.
type event struct {
	Kind     eventKind
	At       int64         // µs of the machine's clock
	ValidFor time.Duration `json:",omitempty"` // the lock, as it says itself
	Outcome  Outcome       `json:",omitempty"`
	Error    string        `json:",omitempty"`

	// Of the open transaction: the process of the server, and the two ends of the connection.
	Backend    int `json:",omitempty"`
	ServerPort int `json:",omitempty"`
	ClientPort int `json:",omitempty"`
}

// An Outcome is how a turn ended, as the worker knows it.
type Outcome string

// The outcomes.
const (
	Acknowledged Outcome = "acknowledged" // COMMIT succeeded
	Refused      Outcome = "refused"      // by the fence
	GaveUp       Outcome = "gave up"      // found out by itself that the lock is over
	Failed       Outcome = "failed"       // an error; after COMMIT was sent, it is not known what became of it
)
