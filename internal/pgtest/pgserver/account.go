package pgserver

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who initdb and postgres run as. Both refuse to run as root; the zero account is this process's own.
type account struct {
	uid, gid uint32
	name     string
}

// serverAccount is ours unless we are root.
func serverAccount() (account, error) {
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
			return account{uid: uint32(uid), gid: uint32(gid), name: name}, nil
		}
	}
	return account{}, fmt.Errorf("running as root, and there is no user postgres or nobody to run a server as")
}

func (a account) other() bool { return a.name != "" }

func (a account) credential() *syscall.Credential {
	if !a.other() {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if !a.other() {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// reaches says whether the account can go into a folder: each folder on the way lets it through. The program itself
// may be root, which passes everywhere, so asking the kernel would not tell.
func (a account) reaches(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for a.other() {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || !a.passes(info) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
	return true
}

func (a account) passes(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && stat.Uid == a.uid:
		return mode&0o100 != 0
	case ok && stat.Gid == a.gid:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}
