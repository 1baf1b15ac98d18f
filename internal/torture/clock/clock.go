//go:build unix

// Package clock is the one clock of all processes of a history: what two of them note can be compared.
//
// It is the machine's own, which nobody sets. A server that runs under libfaketime does not share it; see its samples in the
// history.
package clock

import "golang.org/x/sys/unix"

// Now is the machine's clock in microseconds since its start.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err) // A kernel without this clock is older than Go supports.
	}
	return t.Nano() / 1000
}
