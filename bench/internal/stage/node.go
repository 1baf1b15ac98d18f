package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A Node is an independent Redis server with a socket in a folder of its own.
type Node struct {
	stage    *Stage
	folder   string
	settings []string
	cmd      *exec.Cmd // nil while it is down
}

// ErrNoRedis says that redis-server is not in PATH.
var ErrNoRedis = errors.New("stage: redis-server is not installed")

// InMemory are the settings of a node that keeps nothing over a restart.
func InMemory() []string { return []string{"--appendonly", "no"} }

// OnDisk are those of a node that replies when it is on the disk.
func OnDisk() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

// StartNodes starts three: the least that has a majority without one. What it returns has to be killed, beside an error, too.
func (s *Stage) StartNodes(ctx context.Context, name string, settings []string) (nodes []*Node, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, ErrNoRedis
	}
	for i := range 3 {
		n := &Node{stage: s, folder: filepath.Join(s.folder, fmt.Sprint(name, i)), settings: settings}
		if err := os.Mkdir(n.folder, 0o700); err != nil {
			return nodes, err
		}
		if err := n.Start(ctx); err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// Socket is where it listens.
func (n *Node) Socket() string { return filepath.Join(n.folder, "s") }

// Start returns when it answers.
func (n *Node) Start(ctx context.Context) error {
	_ = os.Remove(n.Socket()) // a killed server leaves it
	cmd := exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", n.Socket(), "--dir", n.folder, "--save", "",
	}, n.settings...)...)
	if err := n.stage.Start(cmd); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	n.cmd = cmd
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !n.answers() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stage: redis-server does not answer: %w", context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func (n *Node) answers() bool {
	conn, err := net.Dial("unix", n.Socket())
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	reply, _ := bufio.NewReader(conn).ReadString('\n')
	return reply == "+PONG\r\n" // Not while it reads its file.
}

// Kill is kill -9. It returns when the server is gone.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // That it was killed.
	n.cmd = nil
}

// Sockets of nodes.
func Sockets(nodes []*Node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Socket())
	}
	return names
}
