//go:build !linux

package pgserver

import "syscall"

// dieWith does nothing: only Linux has a parent-death signal. The janitor ends the server a moment later.
func dieWith(*syscall.SysProcAttr, syscall.Signal) {}
