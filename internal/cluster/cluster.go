//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// patience bounds every wait for the cluster, far above what a loaded machine needs.
const patience = 2 * time.Minute

// Settings are what a test chooses.
type Settings struct {
	TTL time.Duration // of the leader's key in etcd: how long Patroni waits before it takes a leader for dead
}

// A Cluster is three members, one etcd, and the proxies between them. One goroutine uses it.
type Cluster struct {
	Members []*Member

	// Reinitialized counts the members that did not find back by themselves after a fault.
	Reinitialized int

	programs programs
	account  account
	folder   string
	janitor  *janitor
	etcd     string
	exits    sync.WaitGroup // of processes that this one started
}

// Start starts a cluster and returns when its members are a leader and two streaming replicas. It is closed at the end of the
// test. Where its programs are not there the test is skipped.
func Start(t testing.TB, settings Settings) *Cluster {
	t.Helper()
	found, err := findPrograms()
	if err != nil {
		pgtest.Skip(t, "a cluster needs Patroni, etcd and Debian's PostgreSQL: "+err.Error())
	}
	c := &Cluster{programs: found}
	if err := c.prepare(); err != nil {
		t.Fatalf("cluster: %v", err)
	}
	t.Cleanup(func() { c.close(t) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.start(ctx, t, settings); err != nil {
		t.Fatalf("cluster: %v", err)
	}
	return c
}

func (c *Cluster) prepare() error {
	var err error
	if c.account, err = findAccount(); err != nil {
		return err
	}
	if c.folder, err = c.account.folder(); err != nil {
		return err
	}
	if c.janitor, err = startJanitor(c.folder, c.account); err != nil {
		_ = os.RemoveAll(c.folder)
		return err
	}
	return nil
}

func (c *Cluster) start(ctx context.Context, t testing.TB, settings Settings) error {
	ports, err := freePorts(8)
	if err != nil {
		return err
	}
	c.etcd = ports[0]
	if err := c.startEtcd(ctx, ports[1]); err != nil {
		return err
	}
	for i := range 3 {
		m := &Member{Name: fmt.Sprintf("m%d", i+1), cluster: c, postgres: ports[2+2*i], rest: ports[3+2*i]}
		if m.folder, err = c.makeFolder(m.Name); err != nil {
			return err
		}
		m.ToEtcd, m.Peers = faultnet.Listen(t, c.etcd), faultnet.Listen(t, m.postgres)
		m.PeersREST, m.Clients = faultnet.Listen(t, m.rest), faultnet.Listen(t, m.postgres)
		if err := m.configure(settings); err != nil {
			return err
		}
		c.Members = append(c.Members, m)
	}
	for i, m := range c.Members {
		if err := m.start(); err != nil {
			return err
		}
		if i == 0 { // Who is first decides nothing, and a race of three for it costs time.
			if _, err := c.Leader(ctx, nil); err != nil {
				return err
			}
		}
	}
	_, err = c.Whole(ctx)
	return err
}

// startEtcd returns when etcd listens.
func (c *Cluster) startEtcd(ctx context.Context, peers string) error {
	folder, err := c.makeFolder("etcd")
	if err != nil {
		return err
	}
	log, err := c.openLog(filepath.Join(folder, "etcd.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.programs.etcd, "--name", "e", "--data-dir", filepath.Join(folder, "data"),
		"--listen-client-urls", "http://"+c.etcd, "--advertise-client-urls", "http://"+c.etcd,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers,
		"--initial-cluster", "e=http://"+peers, "--enable-v2=true")
	ended, err := c.spawn(cmd, folder, log)
	if err != nil {
		return err
	}
	for {
		// That it listens is not enough: Patroni ends when it is told that etcd has not decided on its version yet.
		err := healthy(ctx, c.etcd)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return errors.New("etcd has ended:\n" + c.tail("etcd/etcd.log"))
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// healthy tells whether etcd can do its work.
func healthy(ctx context.Context, etcd string) error {
	for _, path := range []string{"/health", "/version"} {
		answer, err := call(ctx, http.MethodGet, "http://"+etcd+path, nil)
		if err != nil {
			return err
		}
		if path == "/version" && strings.Contains(string(answer), "not_decided") {
			return errors.New("etcd has not decided on its version")
		}
	}
	return nil
}

// spawn starts a process of the cluster, with an environment of its own: settings of the caller for Python, Patroni, etcd or
// PostgreSQL must not reach it.
func (c *Cluster) spawn(cmd *exec.Cmd, folder string, log *os.File) (ended <-chan struct{}, err error) {
	cmd.Dir = folder
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + folder, "LC_ALL=C", "TZ=UTC"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.account.credential}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	done := make(chan struct{})
	c.exits.Go(func() {
		defer close(done)
		_ = cmd.Wait() // Most are killed.
	})
	return done, nil
}

func (c *Cluster) makeFolder(name string) (string, error) {
	path := filepath.Join(c.folder, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", err
	}
	return path, c.account.own(path)
}

func (c *Cluster) openLog(path string) (*os.File, error) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return log, c.account.own(path)
}

// tail is the end of a log.
func (c *Cluster) tail(name string) string {
	const enough = 3000
	text, err := os.ReadFile(filepath.Join(c.folder, name))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}

// close ends and removes everything, and shows the ends of the logs if the test failed.
func (c *Cluster) close(t testing.TB) {
	if t.Failed() {
		for _, m := range c.Members {
			t.Logf("cluster: %s:\n%s", m.Name, c.tail(m.Name+"/patroni.log"))
		}
	}
	if err := c.janitor.work(c.folder); err != nil {
		t.Errorf("cluster: %v", err)
	}
	c.exits.Wait()
}

// DSN leads a client to whichever member is the leader, through the proxies of clients, with further options.
func (c *Cluster) DSN(options string) string {
	var hosts []string
	for _, m := range c.Members {
		hosts = append(hosts, m.Clients.Addr())
	}
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&%s", strings.Join(hosts, ","), options)
}
