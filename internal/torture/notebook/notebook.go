// Package notebook is where a process writes down what it sees of a torture run: a file of its own, of JSON lines.
package notebook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
)

// A Notebook is the file of one process. A line is one write, with no buffer of ours in between: what was noted is there, also if
// the process is killed the moment after. It is safe for concurrent use.
type Notebook struct {
	process, client string

	mu   sync.Mutex
	file *os.File
}

// Open opens a file for a process that speaks for a client; events of other clients say so themselves.
func Open(path, client string) (*Notebook, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("notebook: %w", err)
	}
	return &Notebook{process: fmt.Sprintf("pid %d", os.Getpid()), client: client, file: file}, nil
}

// Note writes an event that began at from and has ended now, on the machine's clock. It panics if that is not possible: a history
// with holes is worth nothing.
func (n *Notebook) Note(from int64, e history.Event) {
	e.From, e.To = from, clock.Now()
	n.Put(e)
}

// Put is [Notebook.Note] for an event that has its times.
func (n *Notebook) Put(e history.Event) {
	e.Process = n.process
	if e.Client == "" {
		e.Client = n.client
	}
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(e); err != nil {
		panic(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.file.Write(line.Bytes()); err != nil {
		panic(err)
	}
}

// Remark notes something for the reader.
func (n *Notebook) Remark(format string, args ...any) {
	n.Note(clock.Now(), history.Event{Kind: history.KindNote, Text: fmt.Sprintf(format, args...)})
}

// Close closes the file.
func (n *Notebook) Close() error { return n.file.Close() }
