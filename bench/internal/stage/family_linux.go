package stage

import "syscall"

// childAttributes puts a process in a group of its own, out of reach of a Ctrl-C, which is for this program, and has the
// kernel kill it, frozen or not, when the thread that started it ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
