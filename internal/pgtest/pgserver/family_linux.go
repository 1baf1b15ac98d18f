package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// children of a process, from /proc.
func children(parent int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, ppid, ok := stat(pid); ok && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// running is false for a zombie too: it has let go of everything.
func running(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != 'Z' && state != 'X'
}

func stopped(pid int) bool {
	state, _, ok := stat(pid)
	return ok && (state == 'T' || state == 't')
}

// stat reads the state and the parent of a process. The second field is a name that may hold blanks and brackets.
func stat(pid int) (state byte, ppid int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	_, err = fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d", &state, &ppid)
	return state, ppid, err == nil
}
