package pgserver

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// A postmaster's children leave its session and process group, so the parent's pid is what tells the family.

// freeze stops a postmaster and all its children: the parent first, so that it cannot start another one meanwhile.
func freeze(postmaster int) error {
	if err := stopAndWait(postmaster); err != nil {
		return err
	}
	pids, err := children(postmaster)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := stopAndWait(pid); err != nil {
			return err
		}
	}
	return nil
}

// thaw lets a frozen family go on; children first, so that the parent finds them as it left them.
func thaw(postmaster int) error {
	pids, err := children(postmaster)
	if err != nil {
		return err
	}
	for _, pid := range append(pids, postmaster) {
		if err := ignoreGone(syscall.Kill(pid, syscall.SIGCONT)); err != nil {
			return err
		}
	}
	return nil
}

// massacre kills a postmaster and all its children at once, as a power cut would, and waits until they are gone.
func massacre(postmaster *process) error {
	if err := freeze(postmaster.pid()); err != nil {
		return err
	}
	pids, err := children(postmaster.pid())
	if err != nil {
		return err
	}
	for _, pid := range append(pids, postmaster.pid()) {
		if err := ignoreGone(syscall.Kill(pid, syscall.SIGKILL)); err != nil {
			return err
		}
	}
	<-postmaster.done
	// A new server refuses the data folder while a child of the old one is attached to its shared memory.
	for _, pid := range pids {
		if err := poll(10*time.Second, func() bool { return !running(pid) }); err != nil {
			return err
		}
	}
	return nil
}

// stopAndWait returns when the process has really stopped; until then it could still answer or fork.
func stopAndWait(pid int) error {
	if err := ignoreGone(syscall.Kill(pid, syscall.SIGSTOP)); err != nil {
		return err
	}
	return poll(5*time.Second, func() bool { return stopped(pid) || !running(pid) })
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// poll asks until the answer is yes. The processes asked about are not our children, so nobody tells us.
func poll(limit time.Duration, yes func() bool) error {
	for end := time.Now().Add(limit); !yes(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}
