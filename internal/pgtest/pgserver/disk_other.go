//go:build !linux

package pgserver

import "errors"

// Disk is a small disk of its own that can be filled. There is none but on Linux.
type Disk struct{}

var errNoDisk = errors.New("pgserver: disk: only on Linux")

// NewDisk mounts a disk.
func NewDisk(int) (*Disk, error) { return nil, errNoDisk }

// WAL is a folder on it.
func (d *Disk) WAL() (string, error) { return "", errNoDisk }

// Fill takes all the space that is left.
func (d *Disk) Fill() error { return errNoDisk }

// Free gives back what Fill took.
func (d *Disk) Free() error { return errNoDisk }

// Close takes the disk away.
func (d *Disk) Close() error { return errNoDisk }
