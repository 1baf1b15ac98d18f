package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	serverLog = "postgres.log"
	toolLog   = "tools.log"
)

// cluster is a data folder of our own and the server on it, from binaries of this machine.
type cluster struct {
	binaries   binaries
	folder     *folder
	port       int
	postmaster *process // nil: stopped
	frozen     bool

	environment []string // of the server's processes, beside the folder's
}

// newCluster runs initdb and starts the server.
func newCluster(ctx context.Context, b binaries, options Options) (*cluster, error) {
	return build(ctx, b, func(c *cluster) error {
		c.environment = options.Environment
		if err := c.initialize(ctx, options); err != nil {
			return err
		}
		return c.configure(options.settings())
	})
}

// build makes a folder, lets fill make the data in it, and starts the server. After an error nothing is left.
func build(ctx context.Context, b binaries, fill func(*cluster) error) (_ *cluster, err error) {
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(as)
	if err != nil {
		return nil, err
	}
	c := &cluster{folder: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	if c.binaries, err = b.reachable(f); err != nil {
		return nil, err
	}
	if err = fill(c); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = c.start(ctx); err == nil {
			return c, nil
		}
		// Between our look at the port and the server's somebody may have taken it.
		if attempt == 5 || ctx.Err() != nil || portFree(c.port) {
			return nil, err
		}
	}
}

func (c *cluster) data() string { return c.folder.join("data") }

func (c *cluster) source() string {
	return fmt.Sprintf("PostgreSQL %s in %s", c.binaries.version, c.binaries.dir)
}

func (c *cluster) dsn() string { return dsn(c.port) }

func dsn(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

func (c *cluster) initialize(ctx context.Context, options Options) error {
	arguments := []string{"--pgdata", c.data(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--no-locale", "--no-sync"}
	if options.WAL != "" {
		arguments = append(arguments, "--waldir", options.WAL)
	}
	if options.WALSegment != 0 {
		arguments = append(arguments, "--wal-segsize", strconv.Itoa(options.WALSegment))
	}
	return c.tool(ctx, "initdb", arguments...)
}

// tool runs one of PostgreSQL's own.
func (c *cluster) tool(ctx context.Context, name string, arguments ...string) error {
	log, err := c.folder.openLog(toolLog)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := c.folder.command(c.binaries.tool(name), arguments...)
	cmd.Stdout, cmd.Stderr = log, log
	err = run(ctx, cmd, c.folder.account)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%s: %w\n%s", name, err, c.folder.tail(toolLog))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// configure appends to postgresql.conf, where the last line of a name wins.
func (c *cluster) configure(settings map[string]string) error {
	all := map[string]string{
		"listen_addresses": "127.0.0.1",
		// No socket: the path of a temporary folder may be too long for one.
		"unix_socket_directories": "",
		// In the data folder and not in /dev/shm, where a killed server would leave it.
		"dynamic_shared_memory_type": "mmap",
	}
	for name, value := range settings {
		all[name] = value
	}
	file, err := os.OpenFile(c.folder.join("data", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&lines, "%s = '%s'\n", name, strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(all[name]))
	}
	_, err = file.WriteString(lines.String())
	return errors.Join(err, file.Close())
}

// start returns when the server accepts connections.
func (c *cluster) start(ctx context.Context) error {
	if c.postmaster != nil && c.postmaster.ended() { // By itself: a full disk in the midst of a recovery, say.
		c.gone()
	}
	if c.postmaster != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	log, err := c.folder.openLog(serverLog)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The port is an argument and not in the file: a standby copies the file.
	cmd := c.folder.command(c.binaries.tool("postgres"), "-D", c.data(), "-p", strconv.Itoa(c.port))
	cmd.Env = append(cmd.Env, c.environment...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := spawn(cmd, c.folder.account, syscall.SIGQUIT)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	c.folder.janitor.watch(p.pid())
	c.postmaster, c.frozen = p, false
	if err := c.awaitReady(ctx); err != nil {
		return errors.Join(err, c.halt(syscall.SIGQUIT, 10*time.Second))
	}
	return nil
}

// awaitReady reads the server's own status file, as pg_ctl does: a connection could be answered by a stranger who
// took the port first.
func (c *cluster) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if status, err := c.status(); err == nil && status.pid == c.postmaster.pid() && status.state == "ready" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("start postgres: %w", context.Cause(ctx))
		case <-c.postmaster.done:
			return fmt.Errorf("start postgres on port %d: %w\n%s", c.port, c.postmaster.err, c.folder.tail(serverLog))
		}
	}
}

// status is what postmaster.pid says: pid, data folder, start, port, socket folder, address, shared memory, state.
type status struct {
	pid    int
	memory int // id of the System V segment, 0 if none
	state  string
}

func (c *cluster) status() (status, error) {
	text, err := os.ReadFile(c.folder.join("data", "postmaster.pid"))
	if err != nil {
		return status{}, err
	}
	var s status
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		switch {
		case i == 0 && len(fields) == 1:
			s.pid, _ = strconv.Atoi(fields[0])
		case i == 6 && len(fields) == 2:
			s.memory, _ = strconv.Atoi(fields[1])
		case i == 7 && len(fields) == 1:
			s.state = fields[0]
		}
	}
	return s, nil
}

func (c *cluster) stop(_ context.Context, mode Mode) error {
	if mode == Immediate {
		return c.halt(syscall.SIGQUIT, 30*time.Second)
	}
	return c.halt(syscall.SIGINT, 30*time.Second)
}

// halt asks the server to end; one that does not is killed, which is an error.
func (c *cluster) halt(how syscall.Signal, limit time.Duration) error {
	if c.postmaster == nil {
		return nil
	}
	if err := c.resume(); err != nil {
		return err
	}
	c.postmaster.signal(how)
	if !c.postmaster.endsWithin(limit) {
		return errors.Join(fmt.Errorf("postgres did not stop within %s of %v and was killed", limit, how), c.kill())
	}
	c.gone()
	return nil
}

func (c *cluster) kill() error {
	if c.postmaster == nil {
		return nil
	}
	if err := massacre(c.postmaster); err != nil {
		return fmt.Errorf("kill postgres: %w", err)
	}
	c.gone()
	return nil
}

func (c *cluster) gone() {
	c.folder.janitor.forget()
	c.postmaster, c.frozen = nil, false
}

func (c *cluster) pause() error {
	if c.postmaster == nil {
		return errStopped
	}
	c.frozen = true
	return freeze(c.postmaster.pid())
}

func (c *cluster) resume() error {
	if c.postmaster == nil {
		return errStopped
	}
	if !c.frozen {
		return nil
	}
	c.frozen = false
	return thaw(c.postmaster.pid())
}

// remove ends the server and removes the folder. The data is not needed any more: immediate shutdown.
func (c *cluster) remove() error {
	err := c.halt(syscall.SIGQUIT, 10*time.Second)
	// kill -9 leaves the small System V segment that postgres locks its data folder with; the next start would have
	// removed it, but there is none.
	if status, statusErr := c.status(); statusErr == nil && status.memory != 0 {
		removeSegment(status.memory)
	}
	return errors.Join(err, c.folder.remove())
}
