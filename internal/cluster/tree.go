//go:build linux

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A tree is all processes whose working folder is a given one or below it. Neither parents nor process groups would do:
// Patroni starts PostgreSQL in a session of its own, so that it outlives Patroni.
type tree struct{ folder string }

// pids lists the living processes of the tree for which pick is true.
func (t tree) pids(pick func(pid int) bool) []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd")) // An error: it has ended.
		if err != nil || cwd != t.folder && !strings.HasPrefix(cwd, t.folder+"/") {
			continue
		}
		if pick == nil || pick(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// signal sends a signal to each process once, until no new one appears: one that was about to fork has a child by then.
func (t tree) signal(s syscall.Signal, pick func(pid int) bool) {
	told := map[int]bool{}
	for quiet := 0; quiet < 2; {
		quiet++
		for _, pid := range t.pids(pick) {
			if !told[pid] {
				told[pid] = true
				_ = syscall.Kill(pid, s) // It may have ended.
				quiet = 0
			}
		}
	}
}

// kill is kill -9 of all, and returns when none is left.
func (t tree) kill() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		t.signal(syscall.SIGKILL, nil)
		if len(t.pids(nil)) == 0 {
			return nil
		}
	}
	return fmt.Errorf("processes of %s outlive kill -9: %v", t.folder, t.pids(nil))
}

// isPatroni tells Patroni's processes from PostgreSQL's.
func isPatroni(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.Contains(string(line), "python")
}
