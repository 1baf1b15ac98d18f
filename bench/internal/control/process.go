package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/leasehold-go/leasehold/bench/internal/stage"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
)

// patience is how long a run waits for what must come. It bounds a run that fails.
const patience = time.Minute

// A process is a worker, as the controller sees it. One goroutine uses it.
type process struct {
	label  string
	cmd    *exec.Cmd
	in     io.WriteCloser
	events chan event
	stderr bytes.Buffer

	validUntil int64 // µs of the machine's clock, of the newest event that said so
}

// startProcess starts a worker and waits until it is ready.
func startProcess(ctx context.Context, on *stage.Stage, program string, setup Setup) (*process, error) {
	p := &process{label: setup.Label, cmd: exec.Command(program), events: make(chan event)}
	p.cmd.Env = append(os.Environ(), EnvWorker+"=1")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := on.Start(p.cmd); err != nil {
		return nil, err
	}
	go p.listen(out)
	err = json.NewEncoder(p.in).Encode(setup)
	if err == nil {
		_, err = p.await(ctx, isReady)
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// listen hands events on. It ends with the process's standard output.
func (p *process) listen(out io.Reader) {
	defer close(p.events)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Kind: isOver, Outcome: Failed, Error: "not an event: " + lines.Text()}
		}
		p.events <- e
	}
}

// tell sends a command. A frozen process finds it when it wakes up.
func (p *process) tell(c command) error {
	if err := json.NewEncoder(p.in).Encode(c); err != nil {
		return fmt.Errorf("control: %s: %w", p.label, err)
	}
	return nil
}

func (p *process) begin(t turn) error { return p.tell(command{Turn: &t}) }
func (p *process) goOn() error        { return p.tell(command{}) }

// await waits for an event of one of the kinds. What is renewed meanwhile is noted; another kind is a mistake.
func (p *process) await(ctx context.Context, kinds ...eventKind) (event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("control: %s: no %q for %v", p.label, kinds, patience))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		case e, open := <-p.events:
			if !open {
				return event{}, fmt.Errorf("control: %s has ended, and was to be %q: %s", p.label, kinds, p.stderr.String())
			}
			if e.ValidFor != 0 {
				p.validUntil = e.At + e.ValidFor.Microseconds()
			}
			if slices.Contains(kinds, e.Kind) {
				return e, nil
			}
			if e.Kind != isRenewed {
				return event{}, fmt.Errorf("control: %s: %q was to come, not %+v", p.label, kinds, e)
			}
		}
	}
}

// awaitWithin is await that gives up after a while, or at once if none is left.
func (p *process) awaitWithin(ctx context.Context, limit time.Duration, kind eventKind) (e event, came bool, err error) {
	within, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	e, err = p.await(within, kind)
	if errors.Is(err, errLimit) {
		return event{}, false, nil
	}
	return e, err == nil, err
}

// errLimit ends a wait that may end without an event.
var errLimit = errors.New("control: not in time")

// awaitRenewed waits for a renewal that begins after now.
func (p *process) awaitRenewed(ctx context.Context) error {
	now := clock.Now()
	for {
		e, err := p.await(ctx, isRenewed)
		if err != nil || e.At > now {
			return err
		}
	}
}

// end ends it by force, frozen or not.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	for range p.events { // os/exec wants the output read before Wait.
	}
	_ = p.cmd.Wait() // That it was killed.
}
