package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A script plays the database: it answers each renewal after a delay, by the time since the start.
type script struct {
	start  time.Time
	answer func(at time.Duration, call int) (delay time.Duration, v verdict)

	mu    sync.Mutex
	asked []time.Duration
	news  []string
	ended []error
}

func (s *script) ask(ctx context.Context, leases []*Lease) []verdict {
	at := time.Since(s.start)
	s.mu.Lock()
	s.asked = append(s.asked, at)
	call := len(s.asked)
	s.mu.Unlock()
	delay, v := s.answer(at, call)
	if !sleep(ctx, delay) {
		v = verdict{err: ctx.Err()}
	}
	verdicts := make([]verdict, len(leases))
	for i := range verdicts {
		verdicts[i] = v
	}
	return verdicts
}

func (s *script) notice(leases []*Lease, err error) {
	s.news = append(s.news, fmt.Sprintf("%d leases: %v", len(leases), err))
}

// play holds one lease under the script, with TTL 10 s, renewal every 3 s, timeout 1 s and margin 1 s.
func play(t *testing.T, answer func(at time.Duration, call int) (time.Duration, verdict), then func(*script, *renewer, *Lease)) {
	synctest.Test(t, func(t *testing.T) {
		config, err := Config{TTL: 10 * time.Second, RenewInterval: 3 * time.Second, RequestTimeout: time.Second, Margin: time.Second}.withDefaults()
		require.NoError(t, err)
		s := &script{start: time.Now(), answer: answer}
		r := newRenewer(config)
		r.ask, r.notice = s.ask, s.notice
		l := &Lease{name: "n", token: 7, holder: "h", ended: func(l *Lease, cause error) {
			s.ended = append(s.ended, cause)
			r.remove(l)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx); close(done) }()
		l.begin(time.Now().Add(r.trust))
		r.add(l)
		then(s, r, l)
		cancel()
		<-done
		l.finish(ErrReleased)
	})
}

func good(time.Duration, int) (time.Duration, verdict) { return 0, verdict{} }

func TestRenewer_RenewsAtLeastEveryInterval(t *testing.T) {
	play(t, good, func(s *script, r *renewer, l *Lease) {
		time.Sleep(10 * time.Minute)
		require.NoError(t, l.Err())
		require.GreaterOrEqual(t, len(s.asked), 200)
		last := time.Duration(0)
		for _, at := range s.asked {
			require.LessOrEqual(t, at-last, r.interval)
			require.GreaterOrEqual(t, at-last, r.interval*9/10, "jitter only shortens, by a tenth")
			last = at
		}
		require.Empty(t, s.news)
	})
}

func TestRenewer_SleepsWithoutLeases(t *testing.T) {
	play(t, good, func(s *script, r *renewer, l *Lease) {
		l.finish(ErrReleased)
		time.Sleep(time.Hour)
		require.LessOrEqual(t, len(s.asked), 1)
		second := &Lease{name: "m", holder: "i", ended: func(l *Lease, _ error) { r.remove(l) }}
		second.begin(time.Now().Add(r.trust))
		r.add(second)
		time.Sleep(time.Hour)
		require.NoError(t, second.Err(), "a later lease is renewed like the first")
		second.finish(ErrReleased)
	})
}

func TestLease_SlowRenewalDoesNotExtendTrust(t *testing.T) {
	slow := func(time.Duration, int) (time.Duration, verdict) { return 900 * time.Millisecond, verdict{} }
	play(t, slow, func(s *script, r *renewer, l *Lease) {
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, l.Err())
			require.LessOrEqual(t, l.TimeLeft(), r.trust)
			s.mu.Lock()
			if n := len(s.asked); n > 1 {
				// The end of trust is that of a question sent, whole, never that of an answer.
				sent := s.start.Add(s.asked[n-1])
				require.False(t, time.Now().Add(l.TimeLeft()).After(sent.Add(r.trust)))
			}
			s.mu.Unlock()
		}
	})
}

func TestLease_AnswerAfterTheEndOfTrustRevivesNothing(t *testing.T) {
	play(t, good, func(s *script, r *renewer, l *Lease) {
		sent := time.Now()
		l.finish(&LostError{Reason: LostUnreachable})
		l.renewed(sent, r.trust)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.Zero(t, l.TimeLeft())
	})
}

func TestRenewer_OneFailureIsNotALoss(t *testing.T) {
	once := func(_ time.Duration, call int) (time.Duration, verdict) {
		if call == 1 {
			return 0, verdict{err: errors.New("connection reset")}
		}
		return 0, verdict{}
	}
	play(t, once, func(s *script, r *renewer, l *Lease) {
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.Equal(t, s.asked[0], s.asked[1], "asked again at once")
		require.Empty(t, s.news, "a cut idle connection is no news")
	})
}

func TestRenewer_OutageShorterThanTrustKeepsTheLease(t *testing.T) {
	outage := func(at time.Duration, _ int) (time.Duration, verdict) {
		if at > 2*time.Second && at < 7*time.Second {
			return 100 * time.Millisecond, verdict{err: errors.New("refused")}
		}
		return 0, verdict{}
	}
	play(t, outage, func(s *script, r *renewer, l *Lease) {
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.Equal(t, []string{"1 leases: refused", "1 leases: <nil>"}, s.news, "said once when it begins and once when it ends")
		tries := 0
		for _, at := range s.asked {
			if at > 2*time.Second && at < 7*time.Second {
				tries++
			}
		}
		require.Less(t, tries, 20, "the pauses grow")
		require.Greater(t, tries, 4)
	})
}

func TestRenewer_OutageEndsTheLeaseAtTheEndOfTrust(t *testing.T) {
	for _, how := range []struct {
		name   string
		answer func(time.Duration, int) (time.Duration, verdict)
	}{
		{"refused", func(time.Duration, int) (time.Duration, verdict) { return 0, verdict{err: errors.New("refused")} }},
		{"no answer", func(time.Duration, int) (time.Duration, verdict) { return time.Hour, verdict{} }},
	} {
		t.Run(how.name, func(t *testing.T) {
			play(t, how.answer, func(s *script, r *renewer, l *Lease) {
				<-l.Context().Done()
				require.Equal(t, 9*time.Second, time.Since(s.start), "TTL less the margin after the grant was sent")
				var lost *LostError
				require.ErrorAs(t, context.Cause(l.Context()), &lost)
				require.Equal(t, LostUnreachable, lost.Reason)
				require.Error(t, lost.Err, "it says what the last renewal met")
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, s.ended, 1, "a term ends once")
			})
		})
	}
}

func TestRenewer_ADefiniteAnswerEndsTheLeaseAtOnce(t *testing.T) {
	taken := func(at time.Duration, _ int) (time.Duration, verdict) {
		if at > 10*time.Second {
			return 0, verdict{lost: &LostError{Reason: LostTakenOver, By: "b", NewToken: 8}}
		}
		return 0, verdict{}
	}
	play(t, taken, func(s *script, r *renewer, l *Lease) {
		<-l.Context().Done()
		require.Less(t, time.Since(s.start), 14*time.Second)
		time.Sleep(time.Minute)
		require.Equal(t, s.start.Add(s.asked[len(s.asked)-1]).Sub(s.start), s.asked[len(s.asked)-1])
		require.Less(t, s.asked[len(s.asked)-1], 14*time.Second, "a lost lease is not renewed")
	})
}

func TestRenewer_OneLeaseLostLeavesTheOthers(t *testing.T) {
	play(t, good, func(s *script, r *renewer, l *Lease) {
		other := &Lease{name: "m", holder: "i", ended: func(l *Lease, _ error) { r.remove(l) }}
		other.begin(time.Now().Add(r.trust))
		r.add(other)
		time.Sleep(time.Minute)
		other.finish(&LostError{Reason: LostDeleted})
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.Error(t, other.Err())
	})
}

func TestSettle_SaysWhyALeaseWasNotRenewed(t *testing.T) {
	left := func(n int64) *int64 { return &n }
	l := &Lease{name: "n", token: 5, holder: "h"}
	for _, c := range []struct {
		about string
		row   *leaseRow
		want  LostReason
	}{
		{"no row", nil, LostDeleted},
		{"another holder", &leaseRow{Holder: "i", Label: "x", Token: 6, Remaining: left(1)}, LostTakenOver},
		{"another holder who released", &leaseRow{Holder: "i", Label: "x", Token: 6}, LostTakenOver},
		{"a lower token", &leaseRow{Holder: "i", Token: 4, Remaining: left(1)}, LostRolledBack},
		{"freed", &leaseRow{Holder: "h", Token: 5}, LostRevoked},
		{"freed and raised", &leaseRow{Holder: "h", Token: 6}, LostRevoked},
		{"run out", &leaseRow{Holder: "h", Token: 5, Remaining: left(0)}, LostExpired},
		{"locked by somebody", &leaseRow{Holder: "h", Token: 5, Remaining: left(1)}, ""},
	} {
		v := l.settle(c.row)
		if c.want == "" {
			require.Nil(t, v.lost, c.about)
			require.ErrorIs(t, v.err, errRowLocked, c.about)
			continue
		}
		require.Equal(t, c.want, v.lost.Reason, c.about)
		require.EqualValues(t, 5, v.lost.Token)
		require.ErrorIs(t, v.lost, ErrLost)
	}
}
