package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A process is a running instance as the story sees it.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	ready  bool
	frozen bool
	killed bool  // by the story
	dead   bool  // and buried
	term   *term // its newest
}

// A message is what happened to a process: an event that it told, or its end.
type message struct {
	from  *process
	event event
	ended bool
	err   error // how it ended; nil: by itself
}

// hiddenMode is the argument that makes this program an instance.
const hiddenMode = "instance"

// startProcess runs this program again as an instance. It is called from main's goroutine alone, which keeps its thread: Linux
// ends the child when the thread that started it ends.
func startProcess(s setup, messages chan<- message) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: s.Name, cmd: exec.Command(program, hiddenMode, s.Name)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = childAttributes()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out, messages)
	return p, json.NewEncoder(p.in).Encode(s)
}

// listen hands on what the process tells. It ends when the process has ended, with a last message.
func (p *process) listen(out io.Reader, messages chan<- message) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24) // A batch may be large.
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			messages <- message{from: p, event: e}
		}
	}
	_, _ = io.Copy(io.Discard, out)
	messages <- message{from: p, ended: true, err: p.cmd.Wait()}
}

// tell sends it a line. Any goroutine may.
func (p *process) tell(line string) {
	_, _ = io.WriteString(p.in, line+"\n") // If it is dead, a message is on its way.
}

// awake tells whether it could run the job.
func (p *process) awake() bool { return !p.dead && !p.frozen && !p.killed }
func (p *process) alive() bool { return !p.dead }

func (p *process) freeze() error {
	p.frozen = true
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) wake() error {
	p.frozen = false
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// kill is kill -9. It ends a frozen process too.
func (p *process) kill() error {
	p.killed = true
	return p.cmd.Process.Kill()
}
