package history

// A Kind says what happened.
type Kind string

// Kinds that the database records.
const (
	KindLease Kind = "lease" // a row of pglock_leases was inserted, updated or deleted: Old, New
	KindFence Kind = "fence" // a row of job_fences was: Token, its new value
	KindWrite Kind = "write" // a fenced transaction committed: Token, Fence, Write
)

// Kinds that a process notes.
const (
	KindClock    Kind = "clock"    // the database's clock said At, between From and To
	KindAnswer   Kind = "answer"   // an acquire, asked at From and answered at To: Token or Seen, and Text
	KindGranted  Kind = "granted"  // a client was handed a lease
	KindTrusts   Kind = "trusts"   // a client was asked between From and To and trusted its lease for Left
	KindReleased Kind = "released" // a release, asked at From and answered at To: Token, and Text
	KindEnded    Kind = "ended"    // a client's term was over: released, lost or crashed, as Text says
	KindWrote    Kind = "wrote"    // the commit of a fenced transaction was confirmed
	KindRefused  Kind = "refused"  // a fenced transaction was refused as stale and rolled back
	KindUnknown  Kind = "unknown"  // a fenced transaction's commit was sent and not answered
	KindFault    Kind = "fault"    // something was broken on purpose, as Text says
	KindStep     Kind = "step"     // the database's clock was set by Left µs somewhere between From and To
	KindCrash    Kind = "crash"    // the server crashed or was replaced between From and To: see CrashLossy
	KindNote     Kind = "note"     // for the reader

	// The end of a run. Calm: the faults have ended at To; within Left µs every name must have been granted again.
	// Candidate: a client stands for a name after that. Stood: it was granted it between From and To, and released it.
	KindCalm      Kind = "calm"
	KindCandidate Kind = "candidate"
	KindStood     Kind = "stood"
)

// What an answer or a release says in Text, with or without more behind it.
const (
	AnswerGranted = "granted"
	AnswerHeld    = "held"    // somebody else has it, under the token in Seen
	AnswerBusy    = "busy"    // not known who has it
	AnswerGaveUp  = "gave up" // the context ended; Seen is the last holder that was named, if any was
	AnswerUnknown = "unknown" // the database could not be asked, or did not answer

	ReleaseDone    = "released"
	ReleaseLost    = "lost"
	ReleaseUnknown = "unknown"

	// CrashLossy is the Text of a crash that may have forgotten confirmed commits, as an asynchronous failover does. Any other
	// crash may have forgotten commits that did not wait for the disk: releases.
	CrashLossy = "lossy"
)

// An Event is one line of a history. Which fields are set depends on the kind.
type Event struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name,omitempty"`
	Token int64  `json:"token,omitempty"`
	Write string `json:"write,omitempty"` // the id of a fenced transaction

	// Seq orders what the database recorded. It is zero for what a process noted.
	Seq     int64  `json:"seq,omitempty"`
	At      int64  `json:"at,omitempty"`      // the database's clock
	Started int64  `json:"started,omitempty"` // the database's clock when the statement arrived
	Up      int64  `json:"up,omitempty"`      // the machine's clock when it was recorded, in steps of 10 ms; 0: not known
	Xid     int64  `json:"xid,omitempty"`     // the transaction
	By      string `json:"by,omitempty"`      // application_name of the session: the client that did it
	Old     *Row   `json:"old,omitempty"`
	New     *Row   `json:"new,omitempty"`
	Fence   int64  `json:"fence,omitempty"` // of a write: the fence as read at its commit

	// Process and Client say who noted it. From and To are the machine's clock, one for all processes.
	Process string `json:"process,omitempty"`
	Client  string `json:"client,omitempty"`
	From    int64  `json:"from,omitempty"`   // the machine's clock before
	To      int64  `json:"to,omitempty"`     // and after
	Left    int64  `json:"left,omitempty"`   // how long the lease is trusted; of a step: by how much
	Margin  int64  `json:"margin,omitempty"` // how much earlier than it must the client ends its trust
	Seen    int64  `json:"seen,omitempty"`   // the token of the holder that an answer names
	Text    string `json:"text,omitempty"`
}

// A Row is a version of a row of pglock_leases.
type Row struct {
	Token    int64  `json:"token"`
	Holder   string `json:"holder"`
	Label    string `json:"label"`
	Acquired int64  `json:"acquired"`
	Renewed  int64  `json:"renewed"`
	Expires  *int64 `json:"expires"` // nil: free
}

// equal compares two versions of a row, or nil for none.
func (r *Row) equal(other *Row) bool {
	if r == nil || other == nil {
		return r == other
	}
	a, b := *r, *other
	a.Expires, b.Expires = nil, nil
	return a == b && (r.Expires == nil) == (other.Expires == nil) && (r.Expires == nil || *r.Expires == *other.Expires)
}

// Grants tells whether the event began a term. An attempt may be granted twice, the first term having expired unnoticed.
func (e Event) Grants() bool {
	return e.Kind == KindLease && e.New != nil && e.New.Expires != nil &&
		(e.Old == nil || e.Old.Holder != e.New.Holder || e.Old.Token != e.New.Token && e.Old.Acquired != e.New.Acquired)
}

// Revokes tells whether the event gave the row of a term another token, as an operator does to fence its holder out.
func (e Event) Revokes() bool {
	return e.Kind == KindLease && e.Old != nil && e.New != nil && e.Old.Holder == e.New.Holder &&
		e.Old.Token != e.New.Token && e.Old.Acquired == e.New.Acquired
}

// GoesOn tells whether the event changed the row of a term without beginning another: a renewal or a release.
func (e Event) GoesOn() bool {
	return e.Kind == KindLease && e.Old != nil && e.New != nil && e.Old.Token == e.New.Token && e.Old.Holder == e.New.Holder
}

// Renews tells whether the event moved the expiry of a term.
func (e Event) Renews() bool { return e.GoesOn() && e.New.Expires != nil }

// deletesAlive tells whether the event deleted a row whose term was not over.
func (e Event) deletesAlive() bool {
	return e.Kind == KindLease && e.New == nil && e.Old.Expires != nil && *e.Old.Expires > e.At
}
