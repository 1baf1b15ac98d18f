package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Clock is the clock of a server that can be set while it runs, without setting the machine's: libfaketime in the server's
// processes, which reads from a file how far it is off. Clients are not affected. It is not safe for concurrent use.
type Clock struct {
	folder  *folder
	library string
}

// NewClock makes a clock that is right. Its [Clock.Environment] goes into [Options]. The caller calls [Clock.Close] after
// the server's Close.
func NewClock() (*Clock, error) {
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err == nil && len(libraries) == 0 {
		err = errors.New("libfaketime is not installed")
	}
	if err != nil {
		return nil, fmt.Errorf("pgserver: clock: %w", err)
	}
	as, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("pgserver: clock: %w", err)
	}
	f, err := newFolder(as)
	if err != nil {
		return nil, fmt.Errorf("pgserver: clock: %w", err)
	}
	c := &Clock{folder: f, library: libraries[0]}
	if err := c.Set(0); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Clock) file() string { return c.folder.join("clock") }

// Environment has a server obey the clock.
func (c *Clock) Environment() []string {
	return []string{
		"LD_PRELOAD=" + c.library,
		"FAKETIME_TIMESTAMP_FILE=" + c.file(),
		"FAKETIME_NO_CACHE=1", // The file is read at each look at the clock.
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		"NO_FAKE_STAT=1",
	}
}

// Set sets the clock to the machine's plus off. When it returns every look at it, by any process of the server, obeys.
func (c *Clock) Set(off time.Duration) error {
	next := c.folder.join("next")
	// A rename, because nobody may read half of it.
	err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", off.Seconds()), 0o644)
	if err == nil {
		err = os.Rename(next, c.file())
	}
	if err != nil {
		return fmt.Errorf("pgserver: clock: %w", err)
	}
	return nil
}

// Close removes the file. The server must have ended.
func (c *Clock) Close() error {
	if err := c.folder.remove(); err != nil {
		return fmt.Errorf("pgserver: clock: %w", err)
	}
	return nil
}
