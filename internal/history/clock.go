package history

import "math"

// A clock translates a process's monotonic clock into the database's. Each sample bounds the difference of the two from both
// sides; together they leave a narrow interval. Both clocks are taken to run at the same rate for the length of a history.
type clock struct {
	low, high int64 // database time less process time
}

func clocksOf(events []Event) map[string]clock {
	clocks := map[string]clock{}
	for _, e := range events {
		if e.Kind != KindClock {
			continue
		}
		c, found := clocks[e.Process]
		if !found {
			c = clock{math.MinInt64, math.MaxInt64}
		}
		clocks[e.Process] = clock{max(c.low, e.At-e.To), min(c.high, e.At-e.From)}
	}
	return clocks
}

// torn tells that no difference fits all samples: one of the clocks was set, and nothing can be compared.
func (c clock) torn() bool { return c.low > c.high }

// earliest and latest bound the database's time at a time of the process.
func (c clock) earliest(at int64) int64 { return at + c.low }
func (c clock) latest(at int64) int64   { return at + c.high }
