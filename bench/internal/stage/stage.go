// Package stage is what the processes of a comparison stand on, so that nothing of them is left, and the Redis servers among
// them.
package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// A Stage is a folder and a thread. Nothing of it is left, however this program ends:
// the kernel ends the processes with the thread that started them (Linux), and a janitor, a shell that waits for the end of
// a pipe, removes the folder.
type Stage struct {
	folder  string
	janitor *exec.Cmd
	pipe    io.Closer
	starts  chan func()
	ended   chan struct{}
}

// Open opens a stage. The caller closes it.
func Open() (*Stage, error) {
	folder, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	s := &Stage{
		folder: folder,
		// It is run once more because a server may still be writing.
		janitor: exec.Command("/bin/sh", "-c", `cat; rm -rf "$1"; sleep 1; rm -rf "$1"`, "janitor", folder),
		starts:  make(chan func()),
		ended:   make(chan struct{}),
	}
	s.janitor.Dir = "/"
	s.janitor.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Not for a Ctrl-C.
	pipe, err := s.janitor.StdinPipe()
	if err == nil {
		err = s.janitor.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	s.pipe = pipe
	go s.serve()
	return s, nil
}

// serve starts processes on a thread that lives as long as the stage: the parent that the kernel watches is the thread.
func (s *Stage) serve() {
	defer close(s.ended)
	runtime.LockOSThread()
	for start := range s.starts {
		start()
	}
}

// Start starts a process that ends with this one.
func (s *Stage) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = childAttributes()
	result := make(chan error)
	s.starts <- func() { result <- cmd.Start() }
	return <-result
}

// Close is called when the processes have ended.
func (s *Stage) Close() error {
	close(s.starts)
	<-s.ended
	_ = s.janitor.Process.Kill()
	_ = s.janitor.Wait() // That it was killed.
	_ = s.pipe.Close()
	if err := os.RemoveAll(s.folder); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	return nil
}
