//go:build linux

package cluster_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

// A load is several workers, each a process.
type load struct {
	files   []*tail
	workers []*os.Process
	ends    []io.Closer
	exits   sync.WaitGroup
}

// startLoad starts workers with leases that run out during a failover, and one with leases that outlive it.
func startLoad(t testing.TB, dsn, schema string, seed uint64, names []string, outlive time.Duration) *load {
	t.Helper()
	l := &load{}
	folder := t.TempDir()
	t.Cleanup(func() { l.stop() })
	for i, ttl := range []time.Duration{6 * time.Second, 7 * time.Second, 8 * time.Second, outlive} {
		o := orders{
			DSN: dsn, Schema: schema, Label: fmt.Sprintf("w%d", i+1), Names: names, TTL: ttl, Seed: seed + uint64(i),
			File: filepath.Join(folder, fmt.Sprintf("w%d.jsonl", i+1)),
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envWorker+"=1")
		cmd.Stderr = os.Stderr
		// A Ctrl-C is for the test, whose end ends the worker: it reads the end of its input. A frozen one is a process group of its own
		// that has lost its parent, and gets SIGHUP from the kernel.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		l.exits.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("worker %s: %v", o.Label, err)
			}
		})
		l.ends, l.workers = append(l.ends, in), append(l.workers, cmd.Process)
		l.files = append(l.files, &tail{path: o.File})
		require.NoError(t, json.NewEncoder(in).Encode(o))
	}
	return l
}

// signal sends a signal to one worker.
func (l *load) signal(worker int, s syscall.Signal) { _ = l.workers[worker].Signal(s) } // It runs until the load is stopped.

// stop ends the workers and waits for them.
func (l *load) stop() {
	for _, end := range l.ends {
		_ = end.Close() // Closed twice at the end of a test that failed.
	}
	l.exits.Wait()
}

// events are all that the workers have noted so far.
func (l *load) events() ([]history.Event, error) {
	var all []history.Event
	for _, f := range l.files {
		if err := f.read(); err != nil {
			return nil, err
		}
		all = append(all, f.events...)
	}
	return all, nil
}

// granted is when each name was first granted to a worker that asked after a time.
func (l *load) granted(after int64) (map[string]int64, error) {
	first := map[string]int64{}
	for _, f := range l.files {
		if err := f.read(); err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(f.events) {
			if e.To < after {
				break
			}
			if e.Kind == history.KindAnswer && e.Token > 0 && e.From >= after && (first[e.Name] == 0 || e.To < first[e.Name]) {
				first[e.Name] = e.To
			}
		}
	}
	return first, nil
}

// A tail is a growing file of JSON lines, read as far as it goes.
type tail struct {
	path   string
	offset int64
	events []history.Event
}

func (f *tail) read() error {
	file, err := os.Open(f.path)
	if os.IsNotExist(err) {
		return nil // The worker has not begun.
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(f.offset, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // A line may be half written.
	events, err := history.Read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	f.offset += int64(len(text))
	f.events = append(f.events, events...)
	return nil
}
