package pglock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
)

// FuzzRenewer: whatever answers renewals get and however late, a lease is trusted no longer than the start of its last good renewal
// allows, it ends at that moment by itself, and a term that is over stays over.
//
// One byte is one question: the lower three bits are what comes of it, the rest how long it takes.
func FuzzRenewer(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x00\x00\x00", "\x01\x01\x01\x01\x01\x01\x01", "\x01\x01\x00\x01\x01\x00", "\x02", "\xf8", "\xf8\xf8\xf8", "\x00\xf9\x00\xf9\xf8", "\x03\x03\x03\xfb",
		"\x80\x81\x80\x79\x78\x02", "\x04\x00\x04\x00", "\x05\x00",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(200))
	}
	f.Fuzz(func(t *testing.T, answers []byte, margin uint8) {
		answers = answers[:min(len(answers), 64)]
		synctest.Test(t, func(t *testing.T) { renewerKeepsToTheTrust(t, answers, margin) })
	})
}

func renewerKeepsToTheTrust(t *testing.T, answers []byte, margin uint8) {
	config, err := Config{TTL: 3 * time.Second, Margin: time.Duration(margin)*time.Millisecond + 1}.withDefaults()
	require.NoError(t, err)
	r := newRenewer(config)
	var ends atomic.Int64
	l := &Lease{name: "n", token: 5, holder: "h", ended: func(*Lease, error) { ends.Add(1) }}
	granted := time.Now()
	latest := granted.Add(r.trust) // until when it may be trusted, by the rule alone
	l.begin(latest)
	r.add(l)
	r.notice = func([]*Lease, error) {}
	over := false
	var mu sync.Mutex // latest and over: questions look, too
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		alive := l.Err() == nil
		require.False(t, alive && !now.Before(latest), "trusted %v too long", now.Sub(latest))
		require.False(t, alive && over, "a term that is over began again")
		require.LessOrEqual(t, l.TimeLeft(), r.trust)
		require.Equal(t, alive, l.Context().Err() == nil)
		over = over || !alive
	}
	r.ask = func(ctx context.Context, leases []*Lease) []verdict {
		require.Len(t, leases, 1)
		if len(answers) == 0 {
			<-ctx.Done()
			return []verdict{{err: ctx.Err()}}
		}
		sent := time.Now()
		kind, takes := answers[0]&7, time.Duration(answers[0]>>3)*config.RequestTimeout/31
		answers = answers[1:]
		// An answer may come later than the question's time: a process that was stopped.
		if kind == 4 {
			takes *= 20
		}
		time.Sleep(takes)
		look()
		switch kind {
		case 0, 4:
			// What the lease does with it is the code's; what it may do at most is this.
			mu.Lock()
			if time.Now().Before(latest) {
				latest = sent.Add(r.trust)
			}
			mu.Unlock()
			return []verdict{{}}
		case 2:
			return []verdict{{lost: &LostError{Name: l.name, Token: l.token, Reason: LostTakenOver}}}
		case 5:
			l.finish(ErrReleased)
			return []verdict{{}}
		}
		return []verdict{{err: errors.New("not known")}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx)
	}()
	for range 400 {
		time.Sleep(config.TTL / 37)
		synctest.Wait()
		look()
	}
	cancel()
	<-done
	require.True(t, over, "without answers it ends by itself")
	require.EqualValues(t, 1, ends.Load(), "told once")
}

// FuzzSettle: a lease that was not renewed is lost or its state is not known; it is never taken for renewed, and the reason is true.
func FuzzSettle(f *testing.F) {
	for _, seed := range []struct {
		token, rowToken, remaining int64
		kind                       uint8
	}{
		{5, 5, 1, 0}, {5, 5, 0, 0}, {5, 5, -1, 0}, {5, 5, 0, 1}, {5, 6, 9, 2}, {5, 4, 9, 2}, {5, 6, 9, 0}, {5, 4, 9, 0}, {5, 0, 0, 4},
		{1 << 62, 1<<63 - 1, 1 << 62, 0}, {5, 5, 9, 2}, {5, 6, 0, 3},
	} {
		f.Add(seed.token, seed.rowToken, seed.remaining, seed.kind)
	}
	f.Fuzz(func(t *testing.T, token, rowToken, remaining int64, kind uint8) {
		free, foreign, missing := kind&1 != 0, kind&2 != 0, kind&4 != 0
		row := &leaseRow{Name: "n", Holder: "h", Label: "other", Token: rowToken, Remaining: &remaining}
		if free {
			row.Remaining = nil
		}
		if foreign {
			row.Holder = "g"
		}
		if missing {
			row = nil
		}
		v := (&Lease{name: "n", holder: "h", token: fencing.Token(token)}).settle(row)
		require.True(t, (v.lost == nil) != (v.err == nil), "either lost or not known")
		if v.lost == nil {
			require.ErrorIs(t, v.err, errRowLocked)
			require.True(t, !missing && !free && !foreign && rowToken == token && remaining > 0, "its own, and alive")
			return
		}
		require.ErrorIs(t, v.lost, ErrLost)
		want := LostTakenOver
		switch {
		case missing:
			want = LostDeleted
		case rowToken < token:
			want = LostRolledBack
		case foreign:
		case rowToken != token, free:
			want = LostRevoked
		default:
			want = LostExpired
		}
		require.Equal(t, want, v.lost.Reason)
	})
}
