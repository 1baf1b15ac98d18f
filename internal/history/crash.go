package history

import "slices"

// A crash is when the server may have forgotten commits: the last ones, as what is written ahead is lost from its end.
type crash struct {
	Event
	// survived is when the last event that was committed before the crash, and is in the record, was recorded at the earliest:
	// nothing that had been committed by then is forgotten.
	survived int64
}

func (c crash) lossy() bool { return c.Text == CrashLossy }

// findSurvivors looks for what the record has of the time before each crash.
func (t *trial) findSurvivors() {
	for i := range t.crashes {
		c := &t.crashes[i]
		c.survived = beginning
		for _, list := range t.database {
			for _, e := range list {
				if from, to := hull(t.recorded(e)); to < c.From {
					c.survived = max(c.survived, from)
				}
			}
		}
	}
}

// crashed tells whether the server may have forgotten something between two times, confirmed commits if lossy is asked for.
func (t *trial) crashed(from, to int64, lossy bool) bool {
	return slices.ContainsFunc(t.crashes, func(c crash) bool {
		return c.To >= from && c.From <= to && (c.lossy() || !lossy)
	})
}

// forgot tells whether a crash until a time may have forgotten what a client was told was committed.
func (t *trial) forgot(told Event, until int64, lossy bool) bool {
	return slices.ContainsFunc(t.crashes, func(c crash) bool {
		return c.To >= told.From && c.From <= until && told.To >= c.survived && (c.lossy() || !lossy)
	})
}
