package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// An Edit replaces a text of a file by another.
type Edit struct {
	File string // path in the module, or, after "GOROOT/", in Go's own source
	From string // must be there exactly once
	To   string
}

// path is where the file is.
func (e Edit) path(root string) string {
	if file, std := strings.CutPrefix(e.File, "GOROOT/"); std {
		return filepath.Join(goroot(), "src", file)
	}
	return filepath.Join(root, e.File)
}

// goroot is where the source of the Go that builds the mutants is.
var goroot = sync.OnceValue(func() string {
	output, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "" // The edit will say that the file is not there.
	}
	return strings.TrimSpace(string(output))
})

// overlay writes the edited files and the file for -overlay, whose path it returns, into dir. root is the folder of the module.
func (m Mutant) overlay(root, dir string) (string, error) {
	texts := map[string]string{}
	for _, e := range m.Edits {
		text, edited := texts[e.File]
		if !edited {
			body, err := os.ReadFile(e.path(root))
			if err != nil {
				return "", fmt.Errorf("mutants: %w", err)
			}
			text = string(body)
		}
		if n := strings.Count(text, e.From); n != 1 {
			return "", fmt.Errorf("mutants: %q: %s has the text %d times instead of once:\n%s", m.Name, e.File, n, e.From)
		}
		texts[e.File] = strings.Replace(text, e.From, e.To, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("mutants: %w", err)
		}
		replace[Edit{File: file}.path(root)] = edited
	}
	body, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	return path, nil
}

// build makes the mutant's form of a command of the module, in dir, and returns its path.
func (m Mutant) build(ctx context.Context, root, dir, command string) (string, error) {
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, filepath.Base(command))
	// Without symbols it is linked in half of the time.
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./"+command)
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutants: %q does not build: %w\n%s", m.Name, err, output)
	}
	return program, nil
}
