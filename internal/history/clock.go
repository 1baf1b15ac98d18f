package history

import (
	"cmp"
	"math"
	"slices"
)

// A Clock tells what the database's clock said at a time of the machine's, and the other way round.
//
// Each sample bounds the difference of the two from both sides; together they leave a narrow interval. Both run at the same
// rate, except where the database's was set: at the steps that a history notes, and where two samples contradict each
// other. Between two steps lies a span. In the window of a step both its spans are possible.
type Clock struct {
	spans []span
	steps []Event // as noted, for a history without samples
}

// A span is a time between two steps.
type span struct {
	from, to  int64 // the machine's clock; they overlap in the window of a step
	low, high int64 // the database's clock less the machine's
}

// A moment is a part of the machine's time at which something may have happened, with the span it would have been in.
type moment struct {
	span
	lo, hi int64
}

// tick is how long a machine's clock read as [Event.Up] stands still.
const tick = 10_000

const (
	beginning = math.MinInt64 / 4
	end       = math.MaxInt64 / 4
)

// NewClock makes a clock of the samples and the steps of a history.
func NewClock(events []Event) Clock {
	var samples, steps []Event
	for _, e := range events {
		switch e.Kind {
		case KindClock:
			samples = append(samples, e)
		case KindStep:
			steps = append(steps, e)
		}
	}
	byTime := func(a, b Event) int { return cmp.Compare(a.From, b.From) }
	slices.SortStableFunc(samples, byTime)
	slices.SortStableFunc(steps, byTime)

	bounds := append([]Event{{From: beginning, To: beginning}}, steps...)
	bounds = append(bounds, Event{From: end, To: end})
	var parts [][]span
	for i := range len(bounds) - 1 {
		from, to := bounds[i], bounds[i+1]
		within := slices.DeleteFunc(slices.Clone(samples), func(s Event) bool { return s.From < from.To || s.To > to.From })
		parts = append(parts, spans(within, from.From, to.To))
	}
	unsampled(parts, steps)
	return Clock{slices.Concat(parts...), steps}
}

// spans divides the time between two known steps where samples contradict each other.
func spans(samples []Event, from, to int64) []span {
	var list []span
	for len(samples) > 0 {
		n := agreeing(samples)
		if n == len(samples) {
			return append(list, bound(samples, from, to))
		}
		// The clock was set after the last sample that excludes the new one. What lies between may be of either.
		next := samples[n]
		last := n - 1
		for next.At-next.To <= samples[last].At-samples[last].From && next.At-next.From >= samples[last].At-samples[last].To {
			last--
		}
		list = append(list, bound(samples[:last+1], from, next.To))
		from = samples[last].From
		samples = samples[n:]
	}
	return list
}

// agreeing counts the samples from the first on that one difference fits.
func agreeing(samples []Event) int {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	for i, s := range samples {
		if low, high = max(low, s.At-s.To), min(high, s.At-s.From); low > high {
			return i
		}
	}
	return len(samples)
}

func bound(samples []Event, from, to int64) span {
	s := span{from: from, to: to, low: math.MinInt64, high: math.MaxInt64}
	for _, e := range samples {
		s.low, s.high = max(s.low, e.At-e.To), min(s.high, e.At-e.From)
	}
	return s
}

// unsampled fills in the parts between steps that were too short for a sample: a neighbour and the step tell.
func unsampled(parts [][]span, steps []Event) {
	fill := func(i, neighbour int, by, from, to int64) {
		if len(parts[i]) > 0 || len(parts[neighbour]) == 0 {
			return
		}
		near := parts[neighbour][0]
		if neighbour < i {
			near = parts[neighbour][len(parts[neighbour])-1]
		}
		parts[i] = []span{{from: from, to: to, low: near.low + by, high: near.high + by}}
	}
	edges := func(i int) (from, to int64) {
		from, to = beginning, end
		if i > 0 {
			from = steps[i-1].From
		}
		if i < len(steps) {
			to = steps[i].To
		}
		return from, to
	}
	for i := 1; i < len(parts); i++ {
		from, to := edges(i)
		fill(i, i-1, steps[i-1].Left, from, to)
	}
	for i := len(parts) - 2; i >= 0; i-- {
		from, to := edges(i)
		fill(i, i+1, -steps[i].Left, from, to)
	}
}

// Known tells whether the two clocks can be compared.
func (c Clock) Known() bool { return len(c.spans) > 0 }

// Machine bounds when the database's clock said at. Where the clock was set back it may have said so twice.
func (c Clock) Machine(at int64) (earliest, latest int64) {
	return hull(c.moments(at, beginning, end))
}

// moments are the times at which the database's clock may have said at, if it was between the earliest and the latest time
// given: a time of its own for each span, or all of the time if it is none of the clock's.
func (c Clock) moments(at, earliest, latest int64) []moment {
	var list []moment
	for _, s := range c.spans {
		lo, hi := max(earliest, s.from, at-s.high), min(latest, s.to, at-s.low)
		if lo <= hi {
			list = append(list, moment{s, lo, hi})
		}
	}
	if list == nil {
		return []moment{{span{beginning, end, -end, end}, min(earliest, latest), max(earliest, latest)}}
	}
	return list
}

// hull is the time from the earliest to the latest of the moments.
func hull(list []moment) (lo, hi int64) {
	lo, hi = list[0].lo, list[0].hi
	for _, m := range list {
		lo, hi = min(lo, m.lo), max(hi, m.hi)
	}
	return lo, hi
}

// near adds the spans that overlap the moments: in the window of a step, another reading of the clock at the same time may have
// been of the other span.
func (c Clock) near(list []moment) []moment {
	all := slices.Clone(list)
	for _, m := range list {
		for _, s := range c.spans {
			lo, hi := max(m.lo, s.from), min(m.hi, s.to)
			if s != m.span && lo <= hi {
				all = append(all, moment{s, lo, hi})
			}
		}
	}
	return all
}

// jumped tells whether the clock may have been set forwards (or back) between two times, by how much at most in sum.
func (c Clock) jumped(from, to int64, forwards bool) (by int64, found bool) {
	for _, s := range c.steps {
		if !c.Known() && s.To >= from && s.From <= to && (s.Left > 0) == forwards {
			by, found = by+max(s.Left, -s.Left), true
		}
	}
	for i := 1; i < len(c.spans); i++ {
		before, after := c.spans[i-1], c.spans[i]
		if before.to < from || after.from > to {
			continue
		}
		if most := after.high - before.low; forwards && most > 0 {
			by, found = by+most, true
		}
		if most := before.high - after.low; !forwards && most > 0 {
			by, found = by+most, true
		}
	}
	return by, found
}
