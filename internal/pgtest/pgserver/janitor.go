package pgserver

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// janitor is a process that outlives this one: it reads a pipe whose other end only we hold, so the end of the pipe
// is the end of this process, whatever ended it. Then it shuts the server down and removes the folder.
type janitor struct {
	process *process
	pipe    io.WriteCloser
}

// janitorScript gets the folder as $1. SIGQUIT asks a postmaster for an immediate shutdown; it kills children that do
// not listen (frozen ones, say) after five seconds. rm is repeated because a child of initdb may still be writing.
const janitorScript = `
pid=
while read -r word number; do
  case $word in
    watch) pid=$number ;;
    forget) pid= ;;
    done) exit 0 ;;
  esac
done
if [ -n "$pid" ]; then
  kill -QUIT "$pid"
  kill -CONT "$pid"
  n=0
  while kill -0 "$pid" && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
  kill -KILL "$pid"
fi
n=0
while [ $n -lt 50 ]; do rm -rf "$1"; [ -e "$1" ] || exit 0; sleep 0.1; n=$((n+1)); done
`

func startJanitor(folder string, as account) (*janitor, error) {
	cmd := exec.Command("/bin/sh", "-c", janitorScript, "janitor", folder)
	cmd.Dir = "/" // not the folder: it is to be removed
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// No parent-death signal: outliving us is its purpose.
	p, err := spawn(cmd, as, 0)
	if err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	return &janitor{process: p, pipe: pipe}, nil
}

// watch names the process to end when we die.
func (j *janitor) watch(pid int) { _, _ = fmt.Fprintf(j.pipe, "watch %d\n", pid) }

// forget says that the process has ended.
func (j *janitor) forget() { _, _ = fmt.Fprintln(j.pipe, "forget") }

// dismiss ends the janitor with nothing to do.
func (j *janitor) dismiss() {
	_, _ = fmt.Fprintln(j.pipe, "done")
	_ = j.pipe.Close()
	if !j.process.endsWithin(5 * time.Second) {
		j.process.signal(syscall.SIGKILL)
		<-j.process.done
	}
}
