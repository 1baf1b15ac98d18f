//go:build linux

package cluster

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

//go:embed janitor.sh
var janitorScript string

// janitor ends all processes of the cluster and removes its folder when the pipe to it ends, and so when this process does,
// whatever ends it.
type janitor struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startJanitor(folder string, as account) (*janitor, error) {
	j := &janitor{cmd: exec.Command("/bin/sh", "-c", janitorScript, "janitor", folder)}
	j.cmd.Dir = "/" // Not the folder: what is in there is ended.
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as.credential}
	var err error
	if j.pipe, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	return j, nil
}

// work has it do its work, and waits.
func (j *janitor) work(folder string) error {
	_ = j.pipe.Close()
	err := j.cmd.Wait()
	if _, gone := os.Stat(folder); !os.IsNotExist(gone) {
		return errors.Join(fmt.Errorf("the folder %s is still there", folder), gone, err)
	}
	return err
}
