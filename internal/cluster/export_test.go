//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// RoleKilled is a program that has processes as a cluster has, says where, and waits to be killed.
func RoleKilled() int {
	c := &Cluster{}
	err := c.prepare()
	if err == nil {
		var folder string
		if folder, err = c.makeFolder("m1"); err == nil {
			// One in a session of its own whose parent has ended, as PostgreSQL; and one that is frozen.
			err = errors.Join(c.doze(folder, nil, "setsid", "--fork", "sleep", "1000"), c.doze(folder, syscall.SIGSTOP, "sleep", "1000"))
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(c.folder)
	_, _ = io.Copy(io.Discard, os.Stdin) // Until the test ends, if that is first.
	runtime.KeepAlive(c)                 // Its janitor's pipe would be closed with it.
	return 0
}

func (c *Cluster) doze(folder string, then os.Signal, name string, arguments ...string) error {
	cmd := exec.Command(name, arguments...)
	cmd.Dir, cmd.SysProcAttr = folder, &syscall.SysProcAttr{Credential: c.account.credential}
	if err := cmd.Start(); err != nil || then == nil {
		return err
	}
	return cmd.Process.Signal(then)
}

// Living lists the processes of a cluster in a folder.
func Living(folder string) []int { return tree{folder}.pids(nil) }
