package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// Read reads what [Write] wrote, or a process that was killed as it wrote: a last line that is torn is left out. Any other line
// that is no event is an error: a judge that overlooks lines finds nothing.
func Read(r io.Reader) ([]Event, error) {
	lines := bufio.NewReader(r)
	var events []Event
	for {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return nil, fmt.Errorf("history: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			e, err := parse(line)
			if err != nil && last {
				return events, nil // Torn.
			}
			if err != nil {
				return nil, fmt.Errorf("history: event %d: %w", len(events)+1, err)
			}
			events = append(events, e)
		}
		if last {
			return events, nil
		}
	}
}

// ReadFiles reads the files of a history that several processes wrote, each its own. The order of the files does not matter.
func ReadFiles(names ...string) ([]Event, error) {
	var all []Event
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		events, err := Read(file)
		_ = file.Close() // Only read.
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, events...)
	}
	return all, nil
}

func parse(line []byte) (Event, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var e Event
	if err := decoder.Decode(&e); err != nil {
		return e, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("more than one on a line")
	}
	return e, e.validate()
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
