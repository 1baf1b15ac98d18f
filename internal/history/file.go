package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Write writes events as JSON lines.
func Write(w io.Writer, events []Event) error {
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	for _, e := range events {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("history: write: %w", err)
		}
	}
	return buffered.Flush()
}

// Read reads what [Write] wrote. A line that is no event is an error: a judge that overlooks lines finds nothing.
func Read(r io.Reader) ([]Event, error) {
	lines := json.NewDecoder(r)
	lines.DisallowUnknownFields()
	var events []Event
	for {
		var e Event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return nil, fmt.Errorf("history: event %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
}

// validate refuses an event that the rules would read wrongly.
func (e Event) validate() error {
	database := []Kind{KindLease, KindFence, KindWrite}
	process := []Kind{
		KindClock, KindAnswer, KindGranted, KindTrusts, KindReleased, KindEnded, KindWrote, KindRefused, KindUnknown,
		KindFault, KindStep, KindCrash, KindNote, KindCalm, KindCandidate, KindStood,
	}
	switch {
	case !slices.Contains(database, e.Kind) && !slices.Contains(process, e.Kind):
		return fmt.Errorf("kind %q is not known", e.Kind)
	case slices.Contains(database, e.Kind) != (e.Seq > 0):
		return fmt.Errorf("%s: seq is %d", e.Kind, e.Seq)
	case e.Kind == KindLease && e.Old == nil && e.New == nil:
		return fmt.Errorf("%s: neither old nor new", e.Kind)
	case e.To < e.From:
		return fmt.Errorf("%s: from %d to %d", e.Kind, e.From, e.To)
	}
	return nil
}
