package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// A child is a running client program. It is safe for concurrent use.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stdout bytes.Buffer  // read after done
	stderr bytes.Buffer  // read after done
	done   chan struct{} // closed when it has ended
	err    error         // of its end; read after done

	mu     sync.Mutex
	killed bool // by us
}

// start starts the program and hands it its setup.
func start(program string, setup protocol.Setup) (*child, error) {
	line, err := json.Marshal(setup)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	p := &child{cmd: exec.Command(program), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // A Ctrl-C is for this process, with which it ends.
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The program ends with its parent, which the kernel takes to be the thread that started it: this goroutine keeps
		// its thread for as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("torture: %w", err)
	}
	_, _ = fmt.Fprintf(p.in, "%s\n", line) // If nobody reads it, it has ended, and the end tells more.
	return p, nil
}

// tell sends it a command. A stopped process finds it when it wakes up.
func (p *child) tell(command string) { _, _ = fmt.Fprintln(p.in, command) }

// freeze stops it with SIGSTOP, wherever it is. wake lets it go on. Both do nothing if it has ended.
func (p *child) freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *child) wake()   { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// kill is kill -9.
func (p *child) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	_ = p.cmd.Process.Kill()
}

// fault says what was wrong with its end, "" if nothing was. suicide: it said that it would kill itself. Only after done.
func (p *child) fault(suicide bool) string {
	p.mu.Lock()
	killed := p.killed || suicide
	p.mu.Unlock()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	wanted := p.err == nil || killed && status.Signaled() && status.Signal() == syscall.SIGKILL
	said := strings.TrimSpace(p.stderr.String())
	switch {
	case !wanted && p.err != nil:
		return strings.TrimSpace(fmt.Sprintf("ended unasked: %v\n%s", p.err, said))
	case said != "": // Nothing is written there but by a panic, the race detector, or an end with an error.
		return "wrote:\n" + said
	}
	return ""
}

// stood tells whether it has stood for every name. Only after done.
func (p *child) stood() bool { return strings.Contains(p.stdout.String(), protocol.Stood) }
