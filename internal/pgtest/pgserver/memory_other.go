//go:build !linux && !darwin

package pgserver

func removeSegment(int) {}
