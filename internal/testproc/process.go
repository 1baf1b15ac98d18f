//go:build unix

package testproc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait, far above what a loaded machine needs.
const limit = time.Minute

// A Process is a running program. One goroutine uses it, the test's.
type Process struct {
	label  string
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	events chan Event    // closed when its standard output ends
	ended  chan struct{} // closed when nobody wants events any more
	waited bool
}

// Start starts the program, which go build made of package holder, waits until it is ready, and ends it at the end of the test, whatever state it is in.
func Start(t testing.TB, program string, setup Setup) *Process {
	t.Helper()
	p := &Process{
		label:  setup.Label,
		cmd:    exec.Command(program),
		events: make(chan Event),
		ended:  make(chan struct{}),
	}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // A Ctrl-C is for the test, which then ends it.
	in, err := p.cmd.StdinPipe()
	p.must(t, err)
	p.in = in
	out, err := p.cmd.StdoutPipe()
	p.must(t, err)
	p.must(t, p.cmd.Start())
	t.Cleanup(func() { p.end(t) })
	go p.listen(out)
	p.must(t, json.NewEncoder(p.in).Encode(setup))
	p.Expect(t, Ready)
	return p
}

func (p *Process) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("testproc: %s: %v", p.label, err)
	}
}

// listen hands events on. It ends with the process's standard output.
func (p *Process) listen(out io.Reader) {
	defer close(p.events)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		e := Event{}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = Event{Kind: Failed, Error: "not an event: " + lines.Text()}
		}
		e.At = time.Now()
		select {
		case p.events <- e:
		case <-p.ended:
		}
	}
}

// Tell sends it commands. It does not wait; a frozen process finds them when it wakes up.
func (p *Process) Tell(t testing.TB, commands ...Command) {
	t.Helper()
	for _, c := range commands {
		_, err := io.WriteString(p.in, string(c)+"\n")
		p.must(t, err)
	}
}

// Expect waits for the next event and fails the test if it is of another kind: nothing may happen in between.
func (p *Process) Expect(t testing.TB, kind EventKind) Event {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case e, open := <-p.events:
		switch {
		case !open:
			t.Fatalf("testproc: %s has ended; %q was to come next", p.label, kind)
		case e.Kind != kind:
			t.Fatalf("testproc: %s: %q was to come next, not %+v", p.label, kind, e)
		}
		return e
	case <-late.C:
		t.Fatalf("testproc: %s: nothing happens for %v; %q was to come next", p.label, limit, kind)
	}
	return Event{}
}

// Do is [Process.Tell] and [Process.Expect].
func (p *Process) Do(t testing.TB, command Command, kind EventKind) Event {
	t.Helper()
	p.Tell(t, command)
	return p.Expect(t, kind)
}

// Freeze stops it with SIGSTOP, wherever it is.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.must(t, p.cmd.Process.Signal(syscall.SIGSTOP))
}

// Wake lets it go on with SIGCONT.
func (p *Process) Wake(t testing.TB) {
	t.Helper()
	p.must(t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// Kill is kill -9. It returns when the process is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.must(t, p.cmd.Process.Kill())
	_ = p.wait() // That it was killed.
}

// End closes its standard input and waits for a good end, in which it says nothing more.
func (p *Process) End(t testing.TB) {
	t.Helper()
	p.must(t, p.in.Close())
	late := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	for e := range p.events {
		t.Errorf("testproc: %s: nothing more was to come, not %+v", p.label, e)
	}
	p.must(t, p.wait())
}

// wait waits until it has ended. Only the first call does anything.
func (p *Process) wait() error {
	if p.waited {
		return nil
	}
	p.waited = true
	close(p.ended)
	for range p.events { // Until its standard output has ended: os/exec wants it read before Wait.
	}
	return p.cmd.Wait()
}

// end ends it by force, also if it is frozen, and shows what it wrote to standard error if the test failed.
func (p *Process) end(t testing.TB) {
	_ = p.cmd.Process.Kill() // It may have ended.
	_ = p.wait()
	if text := strings.TrimSpace(p.stderr.String()); text != "" && t.Failed() {
		t.Logf("testproc: %s wrote:\n%s", p.label, text)
	}
}
