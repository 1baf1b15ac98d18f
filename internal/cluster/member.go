//go:build linux

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/leasehold-go/leasehold/internal/faultnet"
)

// A Member is one PostgreSQL with its Patroni. Patroni is told the addresses of proxies: of etcd, and as its own, by which the
// other members find it.
type Member struct {
	Name string

	cluster  *Cluster
	folder   string
	postgres string // where it listens; no fault is in between
	rest     string

	// What can be broken: this member's way to etcd; the others' ways to its PostgreSQL and to its Patroni; the clients' way to its
	// PostgreSQL.
	ToEtcd, Peers, PeersREST, Clients *faultnet.Proxy
}

// DSN leads to this member alone, without a proxy.
func (m *Member) DSN() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", m.postgres)
}

// start starts Patroni, which starts PostgreSQL when it has found out how.
func (m *Member) start() error {
	log, err := m.cluster.openLog(filepath.Join(m.folder, "patroni.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	_, err = m.cluster.spawn(exec.Command(m.cluster.programs.patroni, filepath.Join(m.folder, "patroni.json")), m.folder, log)
	return err
}

// Start brings a member back that was killed.
func (m *Member) Start() error { return m.start() }

// Kill is kill -9 of Patroni and PostgreSQL at once.
func (m *Member) Kill() error { return tree{m.folder}.kill() }

// Freeze stops Patroni and PostgreSQL.
func (m *Member) Freeze() { tree{m.folder}.signal(syscall.SIGSTOP, nil) }

// WakePostgres lets PostgreSQL go on, while Patroni still sleeps: nobody is there to tell it that it is no leader any more.
func (m *Member) WakePostgres() {
	tree{m.folder}.signal(syscall.SIGCONT, func(pid int) bool { return !isPatroni(pid) })
}

// Wake lets all go on.
func (m *Member) Wake() { tree{m.folder}.signal(syscall.SIGCONT, nil) }

// proxies are all ways that can be broken.
func (m *Member) proxies() []*faultnet.Proxy {
	return []*faultnet.Proxy{m.ToEtcd, m.Peers, m.PeersREST, m.Clients}
}

// Heal lets everything through again. What hung is cut: TCP would take long to notice.
func (m *Member) Heal() {
	for _, p := range m.proxies() {
		p.Set(faultnet.Pass())
		p.Reset()
	}
}

// configure writes Patroni's configuration. JSON is YAML, too.
func (m *Member) configure(settings Settings) error {
	hba := []string{
		"host all all 127.0.0.1/32 trust",
		"host replication all 127.0.0.1/32 trust",
	}
	config := map[string]any{
		"scope": "leasehold", "namespace": "/leasehold/", "name": m.Name,
		"restapi": map[string]any{"listen": m.rest, "connect_address": m.PeersREST.Addr()},
		// Over etcd's old API: over the new one Patroni 3.0.2 renews the leader's key without comparing, so that a leader that wakes takes it
		// from the next. Proxies: otherwise Patroni asks etcd where it is, and goes there.
		"etcd": map[string]any{"hosts": []string{m.ToEtcd.Addr()}, "use_proxies": true},
		"bootstrap": map[string]any{
			"initdb": []any{map[string]string{"encoding": "UTF8"}, map[string]string{"locale": "C"}, "data-checksums", "no-sync"},
			"dcs": map[string]any{
				"ttl": int(settings.TTL.Seconds()), "loop_wait": 1, "retry_timeout": 3,
				"maximum_lag_on_failover": 64 << 20,
				"postgresql": map[string]any{
					"use_pg_rewind": true, "use_slots": true,
					"remove_data_directory_on_rewind_failure":     true,
					"remove_data_directory_on_diverged_timelines": true,
				},
			},
		},
		"postgresql": map[string]any{
			"listen": m.postgres, "connect_address": m.Peers.Addr(),
			"data_dir": filepath.Join(m.folder, "data"), "bin_dir": m.cluster.programs.postgres,
			"pgpass": filepath.Join(m.folder, "pgpass"),
			"authentication": map[string]any{
				"superuser":   map[string]string{"username": "postgres"},
				"replication": map[string]string{"username": "replicator"},
			},
			"basebackup": []map[string]string{{"checkpoint": "fast"}},
			"pg_hba":     hba,
			"parameters": map[string]any{
				"unix_socket_directories": "",
				// In the data folder and not in /dev/shm, where a killed server would leave it.
				"dynamic_shared_memory_type": "mmap",
				// The machine is not switched off, and a killed process loses nothing that the system has taken.
				"fsync": "off", "full_page_writes": "on", "wal_log_hints": "on",
				"shared_buffers": "16MB", "max_connections": 60, "max_wal_size": "512MB", "wal_keep_size": "256MB",
				"timezone": "UTC", "log_timezone": "UTC", "log_min_messages": "warning",
				// A leader that shuts down waits for replicas that are cut off, for this long.
				"wal_sender_timeout": "10s", "wal_receiver_timeout": "10s",
				"wal_retrieve_retry_interval": "500ms", // A replica that finds no slot yet asks again soon.
			},
		},
		"watchdog": map[string]any{"mode": "off"},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(m.folder, "patroni.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return m.cluster.account.own(path)
}
