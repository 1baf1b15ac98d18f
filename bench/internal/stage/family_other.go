//go:build unix && !linux

package stage

import "syscall"

// childAttributes puts a process in a group of its own, out of reach of a Ctrl-C, which is for this program.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
