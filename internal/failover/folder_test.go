//go:build unix

package failover_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder is a temporary folder for the servers, which may run as another user: so not t.TempDir.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "leasehold-failover-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// folderOf is the same, of the owner of a server's data.
func folderOf(t testing.TB, data string) string {
	t.Helper()
	dir, owner := folder(t), ownerOf(t, data)
	require.NoError(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	return dir
}

// own gives all in a folder to the owner of the folder.
func own(t testing.TB, dir string) {
	t.Helper()
	owner := ownerOf(t, dir)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(owner.Uid), int(owner.Gid)))
	}))
}

// asOwner runs a program as the owner of a server's data: PostgreSQL's own do not run as root.
func asOwner(t testing.TB, data string) *syscall.SysProcAttr {
	t.Helper()
	attributes := new(syscall.SysProcAttr)
	if owner := ownerOf(t, data); int(owner.Uid) != os.Geteuid() {
		attributes.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return attributes
}

func ownerOf(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	owner, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return owner
}
