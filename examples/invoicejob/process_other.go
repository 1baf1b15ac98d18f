//go:build unix && !linux

package main

import "syscall"

// childAttributes puts an instance in a process group of its own, out of reach of a Ctrl-C that is meant for the story, which then
// ends it in good order. If the story itself is killed, an instance sees the end of its standard input.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
