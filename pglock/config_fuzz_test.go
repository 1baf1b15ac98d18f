package pglock

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzConfig: any relation of durations is either refused, with the values in the error, or one with which a lease is kept: what
// a renewal may take fits into the trust, and the trust is shorter than the lease.
func FuzzConfig(f *testing.F) {
	const second = int64(time.Second)
	for _, seed := range [][5]int64{
		{},
		{60 * second, 20 * second, 5 * second, 2 * second, second / 2},
		{second, second / 3, second / 3, second / 3, 1},                      // their sum is the TTL but for a nanosecond
		{3 * second, second, second, second, 0},                              // equal: refused
		{math.MaxInt64, math.MaxInt64 / 2, math.MaxInt64 / 2, 2, 0},          // beyond the longest TTL
		{365 * 24 * 3600 * second, math.MaxInt64, math.MaxInt64, 2, 0},       // a sum that overflows
		{365 * 24 * 3600 * second, 1, 1, 1, math.MaxInt64},                   // as far apart as allowed
		{second / 10, 0, 0, 0, 0},                                            // the shortest TTL
		{second/10 - 1, 0, 0, 0, 0},                                          // just below it
		{-1, 0, 0, 0, 0},                                                     //
		{0, math.MinInt64, 0, 0, 0},                                          //
		{0, 0, 0, -second, 0},                                                //
		{0, 0, 0, 60 * second, 0},                                            // no trust at all
		{0, 59 * second, 0, 0, 0},                                            // too long for the default TTL
		{second, 0, 0, second - second/3 - second/6 - 1, math.MaxInt64},      //
		{61 * second, 20*second + 333333333, 5 * second, 2 * second, second}, //
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, ttl, renew, request, margin, poll int64) {
		given := Config{
			TTL: time.Duration(ttl), RenewInterval: time.Duration(renew), RequestTimeout: time.Duration(request),
			Margin: time.Duration(margin), PollInterval: time.Duration(poll),
		}
		c, err := given.withDefaults()
		if err != nil {
			require.ErrorContains(t, err, "pglock: config: ")
			require.True(t, refusable(given), "%+v is refused: %v", given, err)
			return
		}
		for _, d := range []struct{ given, is time.Duration }{
			{given.TTL, c.TTL}, {given.RenewInterval, c.RenewInterval}, {given.RequestTimeout, c.RequestTimeout},
			{given.Margin, c.Margin}, {given.PollInterval, c.PollInterval},
		} {
			require.Positive(t, d.is)
			require.Contains(t, []time.Duration{0, d.is}, d.given, "what is given stays")
		}
		require.Positive(t, slack(c).Sign(), "%+v", c)

		r := newRenewer(c)
		require.Positive(t, r.trust)
		require.Less(t, r.trust, c.TTL)
		for failures := range 70 {
			pause := r.pause(failures)
			require.LessOrEqual(t, pause, c.RenewInterval)
			// Only after a first failure the next question comes at once.
			require.True(t, failures == 1 || pause >= time.Millisecond/8, "%v after %d failures", pause, failures)
		}
		// The second try after a failure comes at once, so one failure that took all of its time leaves time for it.
		require.Less(t, c.RenewInterval+c.RequestTimeout, r.trust)
		require.Equal(t, c.TTL, microseconds(c.TTL.Microseconds())+c.TTL%time.Microsecond, "it crosses the wire whole, but for parts of a µs")
	})
}

// slack is what is left of the TTL, without overflow.
func slack(c Config) *big.Int {
	left := big.NewInt(int64(c.TTL))
	for _, d := range []time.Duration{c.RenewInterval, c.RequestTimeout, c.Margin} {
		left.Sub(left, big.NewInt(int64(d)))
	}
	return left
}

// refusable says, apart from the code, whether there is a reason: the documented limits and defaults.
func refusable(c Config) bool {
	if c.TTL == 0 {
		c.TTL = time.Minute
	}
	if c.TTL < 100*time.Millisecond || c.TTL > 365*24*time.Hour {
		return true
	}
	for _, d := range []struct {
		value  *time.Duration
		preset time.Duration
	}{
		{&c.RenewInterval, c.TTL / 3}, {&c.RequestTimeout, min(c.TTL/6, 5*time.Second)}, {&c.Margin, min(c.TTL/10, 2*time.Second)},
		{&c.PollInterval, 500 * time.Millisecond},
	} {
		if *d.value < 0 {
			return true
		}
		if *d.value == 0 {
			*d.value = d.preset
		}
		if d.value != &c.Margin && *d.value < time.Millisecond {
			return true
		}
	}
	return slack(c).Sign() <= 0
}

// FuzzText: names, labels, schemas and metadata are taken or refused before anything is sent, by the same rule as the database's.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "a", "invoice-job", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "ä́ß", "\U0010ffff", "\ufeff", "'; --", `"`, `\`, "$user", " "} {
		f.Add(seed, uint16(1))
		f.Add(seed, uint16(300))
	}
	f.Fuzz(func(t *testing.T, part string, times uint16) {
		text := repeated(part, int(times), 5000)
		fine := storable(text)
		for what, limit := range map[string]int{"name": 255, "label": 255, "schema": 63} {
			err := checkText(what, text, limit)
			require.Equal(t, fine && text != "" && len(text) <= limit, err == nil, "%s %q: %v", what, text, err)
			if err != nil {
				require.ErrorContains(t, err, "pglock: "+what+" ")
			}
		}
		config := Config{Metadata: map[string]string{text: part, "key": text}}
		body, err := config.metadataJSON()
		if !fine || !storable(part) {
			require.Error(t, err)
		}
		if err == nil {
			require.LessOrEqual(t, len(body), maxMetadata)
		}
		require.Equal(t, gateKey("public", text), gateKey("public", text))
		if fine && part != "" {
			require.NotEqual(t, gateKey("public", text), gateKey("public", text+part), "another name, another gate")
			require.NotEqual(t, gateKey(text, part), gateKey(text+part, ""), "schema and name are kept apart")
		}
	})
}
