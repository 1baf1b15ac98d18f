//go:build unix && !linux

package clock

import "golang.org/x/sys/unix"

const id = unix.CLOCK_MONOTONIC
