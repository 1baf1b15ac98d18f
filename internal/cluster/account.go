//go:build linux

package cluster

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who the processes run as: PostgreSQL refuses to run as root. The zero account is this process's own.
type account struct{ credential *syscall.Credential }

func findAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, errors.New("running as root, and there is no user postgres or nobody to run a cluster as")
}

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Lchown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// folder makes a temporary folder that the account owns and can reach.
func (a account) folder() (string, error) {
	for _, root := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		look := exec.Command("/bin/sh", "-c", `cd "$1"`, "sh", root)
		look.Dir = "/"
		look.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
		if look.Run() != nil {
			continue
		}
		path, err := os.MkdirTemp(root, "leasehold-cluster-")
		if err != nil {
			return "", err
		}
		return path, a.own(path)
	}
	return "", errors.New("no temporary folder that the cluster's user can reach")
}
