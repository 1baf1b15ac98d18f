//go:build !linux

package pgserver

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// children of a process, from ps: there is no /proc here.
func children(parent int) ([]int, error) {
	output, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(output)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// running is false for a zombie too: it has let go of everything.
func running(pid int) bool {
	state := state(pid)
	return state != "" && state[0] != 'Z'
}

func stopped(pid int) bool {
	state := state(pid)
	return state != "" && state[0] == 'T'
}

func state(pid int) string {
	output, _ := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(output))
}
