package pgserver

import "syscall"

func dieWith(attributes *syscall.SysProcAttr, signal syscall.Signal) { attributes.Pdeathsig = signal }
