package control

// A Regime is a way to protect the ledger.
type Regime struct {
	Name   string
	Lock   Kind
	Asks   Question // what the holder asks its lock right before it writes
	Fenced bool     // the writing transaction passes the fence of the lease
}

// A Kind is a lock.
type Kind string

// The locks.
const (
	Leasehold Kind = "leasehold" // package pglock
	Redlock   Kind = "redlock"   // redsync on three Redis nodes
)

// A Question is what a holder asks its lock before it writes. Asking and writing are two steps whatever is asked.
type Question string

// The questions.
const (
	Nothing Question = ""
	Clock   Question = "clock"   // its own clock: Lease.Err, Mutex.Until
	Nodes   Question = "nodes"   // the lock's servers: Mutex.Valid
	Context Question = "context" // its own clock, and the whole write runs under a context that ends with the lock's validity
)

// Regimes are all that a pause is tried on. The first two differ in the fence alone.
func Regimes() []Regime {
	return []Regime{
		{Name: "Leasehold, fence", Lock: Leasehold, Fenced: true},
		{Name: "Leasehold, no fence", Lock: Leasehold},
		{Name: "Leasehold, no fence, asks its lease", Lock: Leasehold, Asks: Clock},
		{Name: "Leasehold, no fence, under its context", Lock: Leasehold, Asks: Context},
		{Name: "Redlock", Lock: Redlock},
		{Name: "Redlock, asks Until", Lock: Redlock, Asks: Clock},
		{Name: "Redlock, asks Valid", Lock: Redlock, Asks: Nodes},
		{Name: "Redlock, under a deadline of Until", Lock: Redlock, Asks: Context},
	}
}

// RestartRegimes are those that a restart of a lock node is tried on.
func RestartRegimes() []Regime {
	return []Regime{
		{Name: "Redlock, asks Until", Lock: Redlock, Asks: Clock},
		{Name: "Redlock, asks Valid", Lock: Redlock, Asks: Nodes},
	}
}

// DatabaseRegimes are those that a restart of the database is tried on.
func DatabaseRegimes() []Regime { return Regimes()[:2] }
