package main

import "syscall"

// childAttributes puts an instance in a process group of its own, out of reach of a Ctrl-C that is meant for the story, which then
// ends it in good order; and has the kernel kill it, frozen or not, if the story itself is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
