package testproc

import "time"

// Setup is the first line on the program's standard input, as JSON. It is not among the arguments, which everybody on the machine
// can read, because a connection string may have a password.
type Setup struct {
	DSN   string
	Label string // of the holder; the application_name of its connections, too
	Name  string // to acquire

	// As in pglock.Config.
	TTL, RenewInterval, RequestTimeout, Margin, PollInterval time.Duration
}

// A Command is a further line. The program carries them out one after the other and answers each with one event.
type Command string

// The commands.
const (
	Try     Command = "try"     // TryAcquire: Acquired or Held
	Acquire Command = "acquire" // waits as long as it takes: Acquired
	Write   Command = "write"   // two rows in one transaction that passes the fence: Written or Refused
	Insert  Command = "insert"  // two rows without a look at the fence: Written
	Starve  Command = "starve"  // keep every connection of the pool busy: Starved
	Feed    Command = "feed"    // give them back: Fed
	Release Command = "release" // Released
)

// RowsPerWrite is more than one, so that half a transaction would show.
const RowsPerWrite = 2

// Tables are what the program writes to.
const Tables = `
CREATE TABLE writes (
    label text NOT NULL,
    token bigint NOT NULL,
    fenced boolean NOT NULL,
    command integer NOT NULL, -- of this process
    part integer NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT writes_pkey PRIMARY KEY (label, command, part)
)`

// An EventKind says what happened.
type EventKind string

// The kinds of events. All but Ready and Lost answer a command. Failed answers any, when there is no other answer.
const (
	Ready    EventKind = "ready"
	Acquired EventKind = "acquired"
	Held     EventKind = "held"
	Written  EventKind = "written"
	Refused  EventKind = "refused"
	Starved  EventKind = "starved"
	Fed      EventKind = "fed"
	Released EventKind = "released"
	Failed   EventKind = "failed"

	// Lost is told once, as soon as the program knows, and before the answer to any command that is carried out later.
	Lost EventKind = "lost"
)

// An Event is one line on the program's standard output, as JSON.
type Event struct {
	Kind     EventKind
	Token    int64         `json:",omitempty"` // of the own term; of the other holder's, if held
	TookOver bool          `json:",omitempty"` // acquired although the term before was never released
	Holder   string        `json:",omitempty"` // label of the other holder, if held
	Left     time.Duration `json:",omitempty"` // that it has left
	Fence    int64         `json:",omitempty"` // value of the fence, if refused
	Reason   string        `json:",omitempty"` // of the loss
	Error    string        `json:",omitempty"`

	// At is when the test got it, on the test's monotonic clock.
	At time.Time `json:"-"`
}
