package pglock

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
)

// A Lease is one term: a name held by this process under a token, from a confirmed grant until it is released or lost.
// It is renewed in the background as long as it lives. Only a client makes one, and only after a grant.
//
// A lease alone does not protect data: its holder may be paused past the expiry and write afterwards. Pass the fence in the
// writing transaction, see [Lease.AdvanceTx].
//
// A Lease is safe for concurrent use.
type Lease struct {
	name   string
	token  fencing.Token
	holder string // random, one for each attempt: the identity that renew and release compare
	schema string
	// doubtful: a question of this attempt got no answer, and may still be on its way.
	doubtful bool

	ctx    context.Context // the lease's life, which is the product
	cancel context.CancelCauseFunc

	// free ends the term in the database, within limit by default; it is the client's.
	free  func(context.Context, *Lease) error
	limit time.Duration
	// ended is told, once, that the term is over on our side.
	ended func(*Lease, error)

	release sync.Once
	result  error // of the first Release

	mu      sync.Mutex
	trusted time.Time   // trusted until, monotonic
	expiry  *time.Timer // fires at trusted
	end     error       // nil while held
	doubt   error       // the last error of a renewal since the last good one
}

// begin starts the term: from here on it ends by itself when it is no longer trusted.
func (l *Lease) begin(until time.Time) {
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trusted = until
	l.expiry = time.AfterFunc(time.Until(until), l.expire)
}

// Name is what is held.
func (l *Lease) Name() string { return l.name }

// Token is the fencing token of this term: higher than that of every earlier grant of the name, constant through renewals
// (Chubby §2.4 calls it a sequencer).
func (l *Lease) Token() fencing.Token { return l.token }

// Context is cancelled when the term is over. [context.Cause] then is a [*LostError], or [ErrReleased] after the
// own release. It is cancelled at the latest when the lease is no longer trusted, whatever the network does. It carries no
// values and does not depend on the context given to acquire.
func (l *Lease) Context() context.Context { return l.ctx }

// Err is nil while the lease is held and the cause of its context afterwards. It asks nobody: after the time until which the
// lease is trusted it is an error, although no statement ever returned.
func (l *Lease) Err() error {
	l.mu.Lock()
	end, over := l.end, l.end == nil && !time.Now().Before(l.trusted)
	l.mu.Unlock()
	if over {
		l.expire()
		return l.Err()
	}
	return end
}

// TimeLeft is how long the lease is trusted without another renewal: the time when the last good one was sent, plus
// TTL, less the margin, on the monotonic clock. It is zero once the term is over.
func (l *Lease) TimeLeft() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		return 0
	}
	return max(0, time.Until(l.trusted))
}

// Fence is the fence that the grant raised, for the checks of package fencing.
func (l *Lease) Fence() fencing.Fence { return fencing.Fence{Name: l.name, Schema: l.schema} }

// AdvanceTx passes the lease's fence in the caller's transaction with a conditional UPDATE: see
// [fencing.Fence.AdvanceTx]. It does not look at the lease's own state, because the database knows better.
// After [fencing.ErrStale] roll back: the term is over, and nothing of the transaction may stay.
func (l *Lease) AdvanceTx(ctx context.Context, tx pgx.Tx) error {
	return l.Fence().AdvanceTx(ctx, tx, l.token)
}

// ShareTx passes the lease's fence in the caller's transaction with a shared row lock, so that several transactions of this
// holder run side by side: see [fencing.Fence.ShareTx].
//
// Unlike AdvanceTx it first looks at the lease's own state, and returns [Lease.Err] if the term is over. Shared locks do not
// queue behind a grant that waits: an old holder with overlapping transactions would keep the next one out for as long as it
// goes on.
func (l *Lease) ShareTx(ctx context.Context, tx pgx.Tx) error {
	if err := l.Err(); err != nil {
		return err
	}
	return l.Fence().ShareTx(ctx, tx, l.token)
}

// Release ends the term and frees the name at once. The first call decides; later calls, from any goroutine, return
// what it returned. It is fine in a defer: it does not heed the end of ctx and takes at most the client's request timeout.
//
// Call it when the work has ended: the lease's context is cancelled first, then the name is freed for the next holder.
//
// It returns nil if the term lasted until now, an error that matches [ErrLost] if it was over before, with nothing changed in
// the row of another holder, and another error if the database could not be asked. In that case the row is freed in the
// background, or expires by itself.
func (l *Lease) Release(ctx context.Context) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.limit)
	defer cancel()
	return l.releaseWithin(within)
}

// releaseWithin is Release with the caller's own limit.
func (l *Lease) releaseWithin(ctx context.Context) error {
	l.release.Do(func() { l.result = l.free(ctx, l) })
	return l.result
}

// renewed moves the end of trust after a renewal that was sent at the given time and answered well.
//
// Invariant: trust counts from the time of sending, so that a slow reply never stretches it, and a term that is over
// stays over.
func (l *Lease) renewed(sent time.Time, trust time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil || !time.Now().Before(l.trusted) {
		return
	}
	l.doubt = nil
	if until := sent.Add(trust); until.After(l.trusted) {
		l.trusted = until
		l.expiry.Reset(time.Until(until))
	}
}

// doubted notes why a renewal failed, for the error in case none succeeds in time.
func (l *Lease) doubted(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt = err
}

// expire ends the term if it is no longer trusted. The timer calls it; it may have fired just before it was moved.
func (l *Lease) expire() {
	l.mu.Lock()
	over := !time.Now().Before(l.trusted)
	err := &LostError{Name: l.name, Token: l.token, Reason: LostUnreachable, Err: l.doubt}
	l.mu.Unlock()
	if over {
		l.finish(err)
	}
}

// finish ends the term on our side. It reports whether it was this call that did. A term ends once.
func (l *Lease) finish(cause error) bool {
	l.mu.Lock()
	if l.end != nil {
		l.mu.Unlock()
		return false
	}
	l.end = cause
	l.expiry.Stop()
	l.mu.Unlock()
	l.cancel(cause)
	l.ended(l, cause)
	return true
}
