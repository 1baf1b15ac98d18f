package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// diskJanitor is [janitorScript] for a disk: it takes it away when this process has died.
const diskJanitor = `
while read -r word; do [ "$word" = done ] && exit 0; done
umount -l "$1"
rmdir "$1"
`

// Disk is a small disk of its own (a tmpfs) that can be filled: for a server's WAL, see [Options]. It is not safe for
// concurrent use.
type Disk struct {
	path    string
	janitor *janitor
}

// NewDisk mounts a disk of some megabytes, which the server's account owns. Only root may. The caller calls [Disk.Close]
// after the server's Close.
func NewDisk(megabytes int) (*Disk, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("pgserver: disk: only root can mount one")
	}
	as, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("pgserver: disk: %w", err)
	}
	path, err := os.MkdirTemp(tempRoot(as), "leasehold-disk-")
	if err != nil {
		return nil, fmt.Errorf("pgserver: disk: %w", err)
	}
	options := fmt.Sprintf("size=%dm,mode=700,uid=%d,gid=%d", megabytes, as.uid, as.gid)
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: disk: mount: %w", err), os.Remove(path))
	}
	d := &Disk{path: path}
	if d.janitor, err = startDiskJanitor(path); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: disk: %w", err), d.unmount())
	}
	return d, nil
}

func startDiskJanitor(path string) (*janitor, error) {
	cmd := exec.Command("/bin/sh", "-c", diskJanitor, "janitor", path)
	cmd.Dir = "/"
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p, err := spawn(cmd, account{}, 0) // As root; it outlives us.
	if err != nil {
		return nil, err
	}
	return &janitor{process: p, pipe: pipe}, nil
}

// WAL is a folder on it, for [Options].
func (d *Disk) WAL() (string, error) {
	as, err := serverAccount()
	path := filepath.Join(d.path, "wal")
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err == nil {
		err = as.own(path)
	}
	if err != nil {
		return "", fmt.Errorf("pgserver: disk: %w", err)
	}
	return path, nil
}

func (d *Disk) filler() string { return filepath.Join(d.path, "filler") }

// Fill takes all the space that is left, and what is freed later if it is called again.
func (d *Disk) Fill() error {
	file, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("pgserver: disk: fill: %w", err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	err = errors.Join(err, file.Close())
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("pgserver: disk: fill: %w", err)
	}
	return nil
}

// Free gives back what Fill took.
func (d *Disk) Free() error {
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pgserver: disk: free: %w", err)
	}
	return nil
}

// Close takes the disk away, with all that is on it.
func (d *Disk) Close() error {
	err := d.unmount()
	d.janitor.dismiss()
	return err
}

func (d *Disk) unmount() error {
	if err := errors.Join(syscall.Unmount(d.path, syscall.MNT_DETACH), os.Remove(d.path)); err != nil {
		return fmt.Errorf("pgserver: disk: unmount: %w", err)
	}
	return nil
}
