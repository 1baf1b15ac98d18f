package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// folder is a temporary folder that the account owns, with a janitor that removes it if we die.
type folder struct {
	path    string
	account account
	janitor *janitor
}

func newFolder(as account) (*folder, error) { return newFolderIn(tempRoot(as), as) }

func newFolderIn(root string, as account) (*folder, error) {
	path, err := os.MkdirTemp(root, "leasehold-pg-")
	if err != nil {
		return nil, err
	}
	if err := as.own(path); err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	j, err := startJanitor(path, as)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	return &folder{path: path, account: as, janitor: j}, nil
}

// tempRoot is TMPDIR, unless that is closed to the account, as root's own usually is.
func tempRoot(as account) string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if as.reaches(dir) {
			return dir
		}
	}
	return os.TempDir()
}

func (f *folder) join(elements ...string) string {
	return filepath.Join(append([]string{f.path}, elements...)...)
}

// command runs in the folder with an environment of its own: PGDATA, PGPORT, PGOPTIONS and locale of the caller must
// not reach a server or its tools.
func (f *folder) command(name string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(name, arguments...)
	cmd.Dir = f.path
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.path, "LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// openLog opens a file for a child's output. A file and no pipe: nothing of ours has to keep reading, and a server
// that outlives us for a moment holds no descriptor of the caller's.
func (f *folder) openLog(name string) (*os.File, error) {
	log, err := os.OpenFile(f.join(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.account.own(log.Name()); err != nil {
		_ = log.Close()
		return nil, err
	}
	return log, nil
}

// tail is the end of a log, for errors.
func (f *folder) tail(name string) string {
	const enough = 2000
	text, err := os.ReadFile(f.join(name))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}

// remove removes the folder and dismisses the janitor. If the folder resists, the janitor goes on trying.
func (f *folder) remove() error {
	var err error
	for range 50 {
		if err = os.RemoveAll(f.path); err == nil {
			f.janitor.dismiss()
			return nil
		}
		time.Sleep(20 * time.Millisecond) // a late child of initdb still writes
	}
	_ = f.janitor.pipe.Close()
	<-f.janitor.process.done
	if _, gone := os.Stat(f.path); os.IsNotExist(gone) {
		return nil
	}
	return fmt.Errorf("remove temporary folder: %w", err)
}
