package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// BouncerOptions of [StartBouncer]. The zero value is ready to use.
type BouncerOptions struct {
	// PoolSize is default_pool_size: server connections a user and database. Default: 20, PgBouncer's own.
	PoolSize int

	// MaxClientConn is max_client_conn. Default: 100, PgBouncer's own.
	MaxClientConn int

	// Settings are further lines of the [pgbouncer] section, and win over ours.
	Settings map[string]string
}

// Bouncer is a PgBouncer of our own in front of a server, pooling by transaction. It is safe for concurrent use.
type Bouncer struct {
	dsn    string
	server *pgconn.Config

	mu      sync.Mutex // held across I/O on purpose, as a Server's
	folder  *folder
	port    int
	process *process // nil: stopped
	closed  bool
}

// StartBouncer starts PgBouncer, which must be installed, in front of the server that a DSN names. Clients need no
// password and become the user of the DSN, in the database that they ask for. The caller calls [Bouncer.Close].
func StartBouncer(ctx context.Context, dsn string, options BouncerOptions) (_ *Bouncer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("pgserver: pgbouncer: %w", err)
		}
	}()
	program, err := bouncerProgram()
	if err != nil {
		return nil, err
	}
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(as)
	if err != nil {
		return nil, err
	}
	b := &Bouncer{server: config, folder: f}
	for attempt := 1; ; attempt++ {
		if b.port, err = freePort(); err != nil {
			break
		}
		if err = b.configure(options); err != nil {
			break
		}
		if err = b.start(ctx, program); err == nil {
			b.dsn = b.address()
			return b, nil
		}
		if attempt == 5 || ctx.Err() != nil || portFree(b.port) {
			break
		}
	}
	return nil, errors.Join(err, f.remove())
}

// HasPgBouncer says whether [StartBouncer] finds a PgBouncer on this machine.
func HasPgBouncer() bool {
	_, err := bouncerProgram()
	return err == nil
}

func bouncerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer", "/usr/local/bin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("not installed")
}

// DSN leads through PgBouncer. It stays the same through restarts.
func (b *Bouncer) DSN() string { return b.dsn }

// Restart ends PgBouncer at once, as a deployment does, and starts it again: all connections break.
func (b *Bouncer) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("pgserver: restart pgbouncer: %w", errClosed)
	}
	program, err := bouncerProgram()
	if err == nil {
		b.stop()
		err = b.start(ctx, program)
	}
	if err != nil {
		return fmt.Errorf("pgserver: restart pgbouncer: %w", err)
	}
	return nil
}

// Revive starts a PgBouncer again that has ended by itself, and returns what it said last. 1.18.0 ends now and then when a client goes away
// while its cancel request is on the way ("bad client state"). It returns "" if there was nothing to do.
func (b *Bouncer) Revive(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.process == nil || !b.process.ended() {
		return "", nil
	}
	said := strings.TrimSpace(b.folder.tail(bouncerLog))
	said = said[strings.LastIndexByte(said, '\n')+1:]
	program, err := bouncerProgram()
	if err == nil {
		b.stop()
		err = b.start(ctx, program)
	}
	if err != nil {
		return said, fmt.Errorf("pgserver: revive pgbouncer: %w", err)
	}
	return said, nil
}

// Close ends PgBouncer and removes all that it left. Closing again does nothing.
func (b *Bouncer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	b.stop()
	if err := b.folder.remove(); err != nil {
		return fmt.Errorf("pgserver: close pgbouncer: %w", err)
	}
	return nil
}

func (b *Bouncer) address() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(b.server.User),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)),
		Path:     "/" + b.server.Database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// configure writes pgbouncer.ini.
func (b *Bouncer) configure(options BouncerOptions) error {
	settings := map[string]string{
		"listen_addr": "127.0.0.1",
		"listen_port": strconv.Itoa(b.port),
		// No socket: the path of a temporary folder may be too long for one.
		"unix_socket_dir": "",
		"pool_mode":       "transaction",
		// Anybody is let in, as the user of the [databases] line.
		"auth_type": "any",
		// Its complaints about clients that break are not a test's business.
		"log_connections":    "0",
		"log_disconnections": "0",
	}
	if options.PoolSize > 0 {
		settings["default_pool_size"] = strconv.Itoa(options.PoolSize)
	}
	if options.MaxClientConn > 0 {
		settings["max_client_conn"] = strconv.Itoa(options.MaxClientConn)
	}
	maps.Copy(settings, options.Settings)
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = host=%s port=%d user=%s", b.server.Host, b.server.Port, quote(b.server.User))
	if b.server.Password != "" {
		fmt.Fprintf(&ini, " password=%s", quote(b.server.Password))
	}
	ini.WriteString("\n\n[pgbouncer]\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, settings[name])
	}
	path := b.folder.join("pgbouncer.ini")
	if err := os.WriteFile(path, []byte(ini.String()), 0o600); err != nil {
		return err
	}
	return b.folder.account.own(path)
}

func quote(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

const bouncerLog = "pgbouncer.log"

// start returns when PgBouncer listens, whether the server behind it is up or not. Its log tells: a connection of ours
// would count against max_client_conn for a moment longer.
func (b *Bouncer) start(ctx context.Context, program string) error {
	log, err := b.folder.openLog(bouncerLog)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	before := len(b.log())
	cmd := b.folder.command(program, b.folder.join("pgbouncer.ini"))
	cmd.Stdout, cmd.Stderr = log, log
	if b.process, err = spawn(cmd, b.folder.account, syscall.SIGKILL); err != nil {
		return err
	}
	b.folder.janitor.watch(b.process.pid())
	for !strings.Contains(b.log()[before:], "process up") {
		select {
		case <-b.process.done:
			err := b.process.err
			b.stop()
			return fmt.Errorf("ended: %w\n%s", err, b.folder.tail(bouncerLog))
		case <-ctx.Done():
			b.stop()
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (b *Bouncer) log() string {
	text, _ := os.ReadFile(b.folder.join(bouncerLog))
	return string(text)
}

// stop ends the process at once. There is nothing in it to keep.
func (b *Bouncer) stop() {
	if b.process == nil {
		return
	}
	b.process.signal(syscall.SIGKILL)
	<-b.process.done
	b.folder.janitor.forget()
	b.process = nil
}
