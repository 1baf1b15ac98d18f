package pgserver

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child in a session of its own. One goroutine starts it and waits for it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read after done
}

// spawn starts cmd as the account. The kernel sends onDeath to the child when this process dies (Linux only, hence
// the janitor).
func spawn(cmd *exec.Cmd, as account, onDeath syscall.Signal) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as.credential()}
	dieWith(cmd.SysProcAttr, onDeath)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// "Parent" in the kernel's parent-death signal is the thread that forked, and the Go runtime ends threads when
		// it likes: this goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal is a no-op after the end.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// killSession ends the process and its children that did not leave its process group.
func (p *process) killSession() {
	if !p.ended() {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.done
	}
}

// endsWithin waits for the end.
func (p *process) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// run waits for a command to end; when ctx ends first the command and its children are killed.
func run(ctx context.Context, cmd *exec.Cmd, as account) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := spawn(cmd, as, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.killSession()
		return context.Cause(ctx)
	}
}
