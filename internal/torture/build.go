package torture

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// BuildClient builds the client program into a folder, under the race detector if this program is, and returns its path.
// Further flags are for go build: "-overlay", file.
func BuildClient(ctx context.Context, dir string, flags ...string) (string, error) {
	program := filepath.Join(dir, "client")
	arguments := append([]string{"build", "-o", program}, flags...)
	if raced {
		arguments = append(arguments, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(arguments, "github.com/leasehold-go/leasehold/internal/torture/client")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("torture: go build: %w\n%s", err, out)
	}
	return program, nil
}
