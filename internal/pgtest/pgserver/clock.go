package pgserver

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

//go:embed clock/clock.c
var clockSource []byte

// Clock is the clock of a server that can be set while it runs, without setting the machine's: a library in the server's
// processes that adds to the time of day what a file says. clock.c says why it is not libfaketime. Clients are not affected. It is
// not safe for concurrent use.
type Clock struct {
	folder *folder
	offset *os.File // eight bytes, which the server's processes have mapped
}

// NewClock makes a clock that is right; it needs Linux and gcc. Its [Clock.Environment] goes into [Options]. The caller calls
// [Clock.Close] after the server's Close.
func NewClock() (*Clock, error) {
	c, err := newClock()
	if err != nil {
		return nil, fmt.Errorf("pgserver: clock: %w", err)
	}
	return c, nil
}

func newClock() (*Clock, error) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		return nil, errors.New("gcc is not installed")
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(as)
	if err != nil {
		return nil, err
	}
	c := &Clock{folder: f}
	if err := c.build(compiler); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// build compiles the library, and makes the file, with a zero in it.
func (c *Clock) build(compiler string) error {
	if err := os.WriteFile(c.folder.join("clock.c"), clockSource, 0o644); err != nil {
		return err
	}
	out, err := exec.Command(compiler, "-shared", "-fPIC", "-O2", "-o", c.library(), c.folder.join("clock.c")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := os.Chmod(c.library(), 0o755); err != nil {
		return err
	}
	if c.offset, err = os.OpenFile(c.file(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(c.file(), 0o644); err != nil { // Whatever the umask is: servers run as another user.
		return err
	}
	return c.Set(0)
}

func (c *Clock) library() string { return c.folder.join("clock.so") }
func (c *Clock) file() string    { return c.folder.join("clock") }

// Environment has a server obey the clock.
func (c *Clock) Environment() []string {
	return []string{"LD_PRELOAD=" + c.library(), "LEASEHOLD_CLOCK=" + c.file()}
}

// Set sets the clock to the machine's plus off. When it returns every look at it, by any process of the server, obeys.
func (c *Clock) Set(off time.Duration) error {
	var number [8]byte
	binary.NativeEndian.PutUint64(number[:], uint64(off.Microseconds()))
	// Eight bytes at once, of which the kernel copies all or none as far as a reader of one word can tell.
	if _, err := c.offset.WriteAt(number[:], 0); err != nil {
		return fmt.Errorf("pgserver: clock: %w", err)
	}
	return nil
}

// Close removes the files. The server must have ended.
func (c *Clock) Close() error {
	var err error
	if c.offset != nil {
		err = c.offset.Close()
	}
	if err := errors.Join(err, c.folder.remove()); err != nil {
		return fmt.Errorf("pgserver: clock: %w", err)
	}
	return nil
}
