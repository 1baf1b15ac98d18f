package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// A Report is what a run did.
type Report struct {
	Seed   uint64
	Events []history.Event
	Counts map[string]int
	// Failures are what client processes did that none may do: end unasked, panic, race, not end.
	Failures []string
	// Strange are errors of the server that no fault accounts for.
	Strange []string
}

// report puts together what was noted and what the database recorded, so far.
func (r *run) report(ctx context.Context) (*Report, error) {
	var database []history.Event
	var err error
	for range 3 { // A server that was just restarted may not be ready for us at once.
		if database, err = Recorded(ctx, r.options.DSN, r.options.Schema); err == nil {
			break
		}
		if !sleep(ctx, 200*time.Millisecond) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	noted, err := readAll(r.dir)
	if err != nil {
		return nil, err
	}
	report := &Report{Seed: r.options.Seed, Events: append(database, noted...), Counts: map[string]int{}}
	for _, e := range report.Events {
		report.count(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report.Failures = slices.Clone(r.failures)
	return report, nil
}

// readAll reads the files of the run and of its clients.
func readAll(dir string) ([]history.Event, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	var all []history.Event
	for _, name := range files {
		events, err := readOne(name)
		if err != nil {
			return nil, err
		}
		all = append(all, events...)
	}
	return all, nil
}

func readOne(name string) ([]history.Event, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	defer func() { _ = file.Close() }()
	events, err := history.Read(file)
	if err != nil {
		return nil, fmt.Errorf("torture: %s: %w", filepath.Base(name), err)
	}
	return events, nil
}

// count counts what there should be enough of.
func (report *Report) count(e history.Event) {
	c := report.Counts
	if e.Seq > 0 && e.Up == 0 {
		c["recorded without the machine's clock"]++
	}
	switch e.Kind {
	case history.KindLease:
		switch {
		case e.New == nil || e.New.Expires == nil:
		case e.Old == nil || e.Old.Token != e.New.Token:
			c["granted in the database"]++
			if e.Old != nil && e.Old.Expires != nil {
				c["taken over"]++
			}
		default:
			c["renewals"]++
		}
	case history.KindWrite:
		c["writes committed"]++
	case history.KindGranted:
		c["grants"]++
	case history.KindAnswer:
		said, _, _ := strings.Cut(e.Text, ":")
		c["answered "+said]++
	case history.KindReleased:
		said, _, _ := strings.Cut(e.Text, ":")
		c["release "+said]++
	case history.KindWrote, history.KindUnknown:
		c["writes "+string(e.Kind)]++
	case history.KindRefused:
		if e.Text == "" {
			c["writes refused"]++
		} else {
			c["writes rolled back"]++
		}
	case history.KindFault:
		what, _, _ := strings.Cut(e.Text, ":")
		c["faults"]++
		c["fault "+what]++
	case history.KindStood:
		c["stood"]++
	case history.KindNote:
		report.remark(e.Text)
	}
}

// remark reads what a client noted for the run.
func (report *Report) remark(text string) {
	if what, found := strings.CutPrefix(text, protocol.NoteOp); found {
		report.Counts["ops"]++
		report.Counts["op "+what]++
	}
	if what, found := strings.CutPrefix(text, protocol.NoteCount); found {
		report.Counts[what]++
	}
	if what, found := strings.CutPrefix(text, protocol.NoteStrange); found && !slices.Contains(report.Strange, what) {
		report.Strange = append(report.Strange, what)
	}
}

// suicide tells whether the last that a life noted is that it kills itself. Its file is read from the end: it may be long.
func suicide(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(-2048, io.SeekEnd); err != nil && !errors.Is(err, fs.ErrInvalid) {
		_, _ = file.Seek(0, io.SeekStart) // It is shorter.
	}
	tail, err := io.ReadAll(file)
	return err == nil && strings.Contains(string(tail), fmt.Sprintf("%q", protocol.NoteSuicide))
}
