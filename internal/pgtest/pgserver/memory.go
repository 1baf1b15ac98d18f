//go:build linux || darwin

package pgserver

import "golang.org/x/sys/unix"

// removeSegment removes a System V shared memory segment; it may be gone already.
func removeSegment(id int) { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }
