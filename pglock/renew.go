package pglock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leasehold-go/leasehold/fencing"
)

// A verdict is what one renewal found out about one lease: renewed, if both fields are nil.
type verdict struct {
	lost *LostError // final
	err  error      // not known: ask again
}

// A renewer keeps the leases of one client alive: one goroutine, and one question to the database for all of them.
//
// It decides over time and verdicts alone. Asking is the client's, so fake time and fake answers test it whole.
type renewer struct {
	interval time.Duration // between good renewals
	timeout  time.Duration // of one question
	trust    time.Duration // TTL less the margin
	// ask renews the leases and gives a verdict for each, in their order.
	ask func(ctx context.Context, leases []*Lease) []verdict
	// notice is told when renewals go on failing, with the leases in danger and the last error, and with a nil error when
	// they succeed again. One failure alone is no news.
	notice func(leases []*Lease, err error)

	held chan map[*Lease]struct{} // the leases to renew: a mutex that nobody holds while asking
	wake chan struct{}            // the first lease is there
}

func newRenewer(config Config) *renewer {
	r := &renewer{
		interval: config.RenewInterval,
		timeout:  config.RequestTimeout,
		trust:    config.TTL - config.Margin,
		held:     make(chan map[*Lease]struct{}, 1),
		wake:     make(chan struct{}, 1),
	}
	r.held <- map[*Lease]struct{}{}
	return r
}

// add has a lease renewed from now on.
func (r *renewer) add(l *Lease) {
	held := <-r.held
	held[l] = struct{}{}
	r.held <- held
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// remove has it renewed no more. A renewal under way may still reach the database: it is compare-and-set on the holder
// of an unreleased row, so it revives nothing.
func (r *renewer) remove(l *Lease) {
	held := <-r.held
	delete(held, l)
	r.held <- held
}

func (r *renewer) leases() []*Lease {
	held := <-r.held
	list := make([]*Lease, 0, len(held))
	for l := range held {
		list = append(list, l)
	}
	r.held <- held
	return list
}

// run renews until ctx ends.
//
// All leases share one rhythm: a lease that is new since the last renewal waits for the next at most interval. While
// there is no lease it sleeps.
func (r *renewer) run(ctx context.Context) {
	failures := 0
	for {
		leases := r.leases()
		if len(leases) == 0 {
			failures = 0
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			}
		}
		if !sleep(ctx, r.pause(failures)) {
			return
		}
		if leases = r.leases(); len(leases) == 0 {
			continue
		}
		doubtful, err := r.renew(ctx, leases)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && failures > 1:
			r.notice(leases, nil)
		case err != nil && failures == 1:
			r.notice(doubtful, err)
		}
		if err == nil {
			failures = 0
		} else {
			failures++
		}
	}
}

// pause is how long to wait before the next question: about interval after a good one; nothing after a first failure, as an
// idle connection that was cut says so only when it is used; then longer and longer, so that an outage does not make a storm.
func (r *renewer) pause(failures int) time.Duration {
	switch failures {
	case 0:
		return shorten(r.interval, 0.1)
	case 1:
		return 0
	}
	longest := r.interval / 4
	step := 25 * time.Millisecond << min(failures, 10)
	return shorten(min(step, longest), 0.5)
}

// renew asks once. It returns the leases that got no definite answer, and the last reason.
func (r *renewer) renew(ctx context.Context, leases []*Lease) (doubtful []*Lease, last error) {
	asking, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	sent := time.Now()
	for i, v := range r.ask(asking, leases) {
		l := leases[i]
		switch {
		case v.lost != nil:
			l.finish(v.lost)
		case v.err != nil:
			doubtful, last = append(doubtful, l), v.err
			l.doubted(v.err)
		default:
			l.renewed(sent, r.trust)
		}
	}
	return doubtful, last
}

// settle compares what the rows say with a lease that was not renewed.
func (l *Lease) settle(row *leaseRow) verdict {
	lost := &LostError{Name: l.name, Token: l.token}
	switch {
	case row == nil:
		lost.Reason = LostDeleted
	case row.Token < int64(l.token):
		lost.Reason = LostRolledBack
	case row.Holder != l.holder || row.Token != int64(l.token):
		lost.Reason, lost.By, lost.NewToken = LostTakenOver, row.Label, fencing.Token(row.Token)
		if row.Holder == l.holder {
			lost.Reason = LostRevoked // an operator raises the token of the row that is to be fenced out
		}
	case row.Remaining == nil:
		lost.Reason = LostRevoked
	case *row.Remaining <= 0:
		lost.Reason = LostExpired
	default:
		return verdict{err: errRowLocked}
	}
	return verdict{lost: lost}
}

// shorten takes up to the given part off d, at random, so that many processes do not ask at the same moment.
func shorten(d time.Duration, part float64) time.Duration {
	return d - time.Duration(rand.Float64()*part*float64(d))
}

// sleep waits for d. It is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
