//go:build linux

package cluster

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// RoleKilled is a program that has processes as a cluster has, says where, and waits to be killed.
func RoleKilled() int {
	c := &Cluster{}
	err := c.prepare()
	if err == nil {
		var folder string
		if folder, err = c.makeFolder("m1"); err == nil {
			// One in a session of its own whose parent has ended, as PostgreSQL; and one that is frozen.
			for _, script := range []string{"setsid sleep 1000 & echo", "sleep 1000"} {
				cmd := exec.Command("/bin/sh", "-c", script)
				cmd.Dir, cmd.SysProcAttr = folder, &syscall.SysProcAttr{Credential: c.account.credential}
				if err = cmd.Start(); err != nil {
					break
				}
				if strings.HasPrefix(script, "sleep") {
					err = cmd.Process.Signal(syscall.SIGSTOP)
				}
			}
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(c.folder)
	time.Sleep(time.Hour)
	return 0
}

// Living lists the processes of a cluster in a folder.
func Living(folder string) []int { return tree{folder}.pids(nil) }
