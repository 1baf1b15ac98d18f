// Package protocol is what the run and the program of a client say to each other.
package protocol

import "time"

// Setup is the first line on the program's standard input, as JSON. It is not among the arguments, which everybody on the
// machine can read, because a connection string may have a password.
type Setup struct {
	Label  string // of this life, "c3.2"; the application_name of its connections and its planner, too
	DSN    string // through a proxy of this life
	Pooled bool   // the proxy leads to a pooler in transaction mode: no settings of the session get through
	File   string // what it notes goes there
	Seed   uint64
	Schema string
	Names  []string

	MinTTL, MaxTTL time.Duration // its TTL is drawn
	Watch          time.Duration // between two looks at its leases
	Stand          time.Duration // how long it stands for a name at most
	Favour         []string      // operations that come up more often
}

// Calm is the only command: the faults have ended. The program ends its operations, stands for every name, closes, and
// exits with 0. The end of its standard input ends it at once.
const Calm = "calm"

// Stood is what the program writes to its standard output when it has stood for every name.
const Stood = "stood"

// What a program notes as a history.KindNote for the run to read, with more behind it. Others are for people.
const (
	NoteOp      = "op "          // before each operation
	NoteStrange = "strange: "    // an error of the server that no fault accounts for
	NoteCount   = "count "       // something that is counted in the report
	NoteSuicide = "kills itself" // the operation crash: SIGKILL comes next
)
