package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// An interruption is the cause of the context when somebody wants the program to end.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string { return fmt.Sprintf("stopped: %v", i.signal) }

// interruptible gives a context that ends when the program is asked to end: by Ctrl-C, by a signal, by a call of interrupt, or
// because the `go run` that started it is gone. What it started is then ended in good order. Further signals change
// nothing, so that an impatient second Ctrl-C leaves nothing behind either.
func interruptible() (ctx context.Context, interrupt func(syscall.Signal), stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	// Taken and dropped: it comes for every closed pipe and connection, those of a dead instance or server too. The report
	// knows when it is its own reader that has gone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		orphaned := orphan(done)
		for {
			select {
			case s := <-signals:
				cancel(interruption{s.(syscall.Signal)})
			case <-orphaned:
				cancel(interruption{syscall.SIGTERM})
				orphaned = nil
			case <-done:
				return
			}
		}
	}()
	interrupt = func(s syscall.Signal) { cancel(interruption{s}) }
	return ctx, interrupt, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// orphan tells when the `go run` that is our parent has ended. It does not hand on the signals that end it. Started by
// anything else, a program may outlive its parent.
func orphan(done <-chan struct{}) <-chan struct{} {
	parent := os.Getppid()
	gone := make(chan struct{})
	if !startedByGoRun(parent) {
		return gone
	}
	go func() {
		defer close(gone)
		for os.Getppid() == parent {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return gone
}

// startedByGoRun looks at the parent's name where /proc has it, and at the folder where `go run` puts programs.
func startedByGoRun(parent int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err == nil {
		return strings.TrimSpace(string(name)) == "go"
	}
	program, err := os.Executable()
	return err == nil && strings.Contains(filepath.ToSlash(program), "/go-build")
}
