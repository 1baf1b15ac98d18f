package control

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// glance is how often something is looked at again that cannot be waited for.
const glance = 5 * time.Millisecond

// freeze stops a process with SIGSTOP and returns when all of it stands still.
func freeze(ctx context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("control: stop %d: %w", pid, err)
	}
	return until(ctx, func() (bool, error) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false, err
		}
		state := bytes.TrimSpace(text[bytes.LastIndexByte(text, ')')+1:])
		return state[0] == 'T', nil
	})
}

// wake lets it go on.
func wake(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// isPostgres says whether a process of this machine is one of a PostgreSQL server: a server in a container has others.
func isPostgres(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(name), "postgres")
}

// arrived waits until the server's end of a connection over loopback has bytes that nobody has read.
func arrived(ctx context.Context, server, client int) error {
	local, remote := fmt.Sprintf(":%04X", server), fmt.Sprintf(":%04X", client)
	return until(ctx, func() (bool, error) {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // number, local, remote, state, sent:received, …
			if len(f) > 4 && strings.HasSuffix(f[1], local) && strings.HasSuffix(f[2], remote) {
				return !strings.HasSuffix(f[4], ":00000000"), nil
			}
		}
		return false, fmt.Errorf("control: no connection from port %d to port %d", client, server)
	})
}

// until looks again and again, for as long as a run waits for anything.
func until(ctx context.Context, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("control: nothing changes for %v", patience))
	defer cancel()
	for {
		done, err := condition()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(glance):
		}
	}
}
