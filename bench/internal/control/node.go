package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A node is an independent Redis server with a socket in a folder of its own.
type node struct {
	stage    *stage
	folder   string
	settings []string
	cmd      *exec.Cmd // nil while it is down
}

// inMemory keeps nothing over a restart; onDisk is on the disk before a reply.
var (
	inMemory = []string{"--appendonly", "no"}
	onDisk   = []string{"--appendonly", "yes", "--appendfsync", "always"}
)

// startNodes starts three: the least that has a majority without one.
func (s *stage) startNodes(ctx context.Context, name string, settings []string) (nodes []*node, err error) {
	for i := range 3 {
		n := &node{stage: s, folder: filepath.Join(s.folder, fmt.Sprint(name, i)), settings: settings}
		if err := os.Mkdir(n.folder, 0o700); err != nil {
			return nodes, err
		}
		if err := n.start(ctx); err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func (n *node) socket() string { return filepath.Join(n.folder, "s") }

// start returns when it answers.
func (n *node) start(ctx context.Context) error {
	_ = os.Remove(n.socket()) // a killed server leaves it
	cmd := exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", n.socket(), "--dir", n.folder, "--save", "",
	}, n.settings...)...)
	if err := n.stage.start(cmd); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	n.cmd = cmd
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return until(ctx, func() (bool, error) { return n.answers(), nil })
}

func (n *node) answers() bool {
	conn, err := net.Dial("unix", n.socket())
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

// kill is kill -9. It returns when the server is gone.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // That it was killed.
	n.cmd = nil
}

func sockets(nodes []*node) (names []string) {
	for _, n := range nodes {
		names = append(names, n.socket())
	}
	return names
}
