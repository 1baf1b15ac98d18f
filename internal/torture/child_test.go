package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/torture/notebook"
	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// TestChild_BadEndsAreFaults: a client that ends by itself, that panics or has a data race must not pass for one that was killed.
func TestChild_BadEndsAreFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		kill    func(*child)
		suicide bool
		fault   string
	}{
		"a good end":                      {script: "exit 0"},
		"an error":                        {script: "echo no database >&2; exit 1", fault: "ended unasked: exit status 1\nno database"},
		"a data race in the end":          {script: "echo WARNING: DATA RACE >&2; exit 0", fault: "DATA RACE"},
		"killed by us":                    {script: "wait", kill: (*child).kill},
		"killed by somebody":              {script: "wait", kill: murder, fault: "ended unasked: signal: killed"},
		"a data race before it is killed": {script: "echo WARNING: DATA RACE >&2; wait", kill: (*child).kill, fault: "DATA RACE"},
		"by its own hand":                 {script: "kill -9 $$", suicide: true},
		"by its own hand, and not said":   {script: "kill -9 $$", fault: "ended unasked: signal: killed"},
		"a panic before it is killed":     {script: "echo panic >&2; exit 2", suicide: true, fault: "ended unasked: exit status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program, ready := filepath.Join(dir, "client"), filepath.Join(dir, "ready")
			script := strings.ReplaceAll(c.script, "wait", "touch "+ready+"; exec sleep 60")
			script = fmt.Sprintf("#!/bin/sh\nread line\n%s\n", script)
			require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
			p, err := start(program, protocol.Setup{})
			require.NoError(t, err)
			if c.kill != nil {
				require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, time.Minute, 5*time.Millisecond)
				c.kill(p)
			}
			<-p.done
			if c.fault == "" {
				require.Empty(t, p.fault(c.suicide))
			} else {
				require.Contains(t, p.fault(c.suicide), c.fault)
			}
			require.False(t, p.stood())
		})
	}
}

func murder(p *child) { _ = p.cmd.Process.Signal(syscall.SIGKILL) }

// TestSuicide_IsWhatALifeNotedLast.
func TestSuicide_IsWhatALifeNotedLast(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c1.1.jsonl")
	require.False(t, suicide(path), "there is no file")
	book, err := notebook.Open(path, "c1.1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	book.Remark("%scrash", protocol.NoteOp)
	require.False(t, suicide(path))
	book.Remark(protocol.NoteSuicide)
	require.True(t, suicide(path))
	for range 100 {
		book.Remark("it lives on")
	}
	require.False(t, suicide(path))
	book.Remark(protocol.NoteSuicide)
	require.True(t, suicide(path))
}
