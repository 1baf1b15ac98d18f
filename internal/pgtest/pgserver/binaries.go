package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first major version that the project supports.
const oldest = 13

// binaries is a folder with initdb, postgres and their tools.
type binaries struct {
	dir     string
	version string // "15.18"
	major   int
}

func (b binaries) tool(name string) string { return filepath.Join(b.dir, name) }

// findBinaries returns what is there, in the order to try it.
func findBinaries(ctx context.Context) ([]binaries, error) {
	if dir := os.Getenv(envBinaries); dir != "" {
		found, err := inspect(ctx, dir)
		if err != nil {
			return nil, err
		}
		return []binaries{found}, nil
	}
	var all []binaries
	var errs []error
	for _, dir := range places() {
		found, err := inspect(ctx, dir)
		if errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(all, func(b binaries) bool { return b.dir == found.dir }) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		all = append(all, found)
	}
	return all, errors.Join(errs...)
}

// places are the folders where packages put the binaries; several versions of one place newest first.
func places() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// Often a link; initdb and the libraries are beside its target.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                        // packages of the PostgreSQL project for RPM systems
		"/usr/libexec/postgresql*",                                // Alpine
		"/usr/lib/postgresql*/bin",                                // SUSE
		"/usr/local/pgsql/bin",                                    // built from source
		"/opt/homebrew/opt/postgresql*/bin",                       // Homebrew, Apple silicon
		"/usr/local/opt/postgresql*/bin",                          // Homebrew, Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",          // Homebrew, Linux
		"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
	} {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var number = regexp.MustCompile(`\d+`)

// versionIn is the last number in a path, its major version.
func versionIn(dir string) int {
	numbers := number.FindAllString(dir, -1)
	if len(numbers) == 0 {
		return 0
	}
	version, _ := strconv.Atoi(numbers[len(numbers)-1])
	return version
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect asks the binaries in a folder for their version.
func inspect(ctx context.Context, dir string) (binaries, error) {
	b := binaries{dir: dir}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(b.tool(name)); err != nil {
			return b, err
		}
	}
	output, err := exec.CommandContext(ctx, b.tool("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("postgres --version: %w", err)
	}
	match := versionText.FindStringSubmatch(string(output))
	if match == nil {
		return b, fmt.Errorf("postgres --version: unexpected answer %q", strings.TrimSpace(string(output)))
	}
	b.version = match[1]
	b.major, _ = strconv.Atoi(match[2])
	if b.major < oldest {
		return b, fmt.Errorf("PostgreSQL %s is older than %d", b.version, oldest)
	}
	return b, nil
}

// reachable returns binaries that the folder's account can run. A download in root's home is closed to others: the
// installation is copied then.
func (b binaries) reachable(f *folder) (binaries, error) {
	if f.account.reaches(b.dir) {
		return b, nil
	}
	target := f.join("postgresql")
	if err := b.copy(target, f.account); err != nil {
		return b, fmt.Errorf("copy binaries for user %s: %w", f.account.name, err)
	}
	b.dir = filepath.Join(target, filepath.Base(b.dir))
	return b, nil
}

// copy takes only what belongs to an installation: binaries may lie in a home folder with everything else.
func (b binaries) copy(target string, as account) error {
	for _, part := range []string{filepath.Base(b.dir), "lib", "lib64", "share"} {
		source := filepath.Join(filepath.Dir(b.dir), part)
		if _, err := os.Stat(source); err != nil {
			continue
		}
		if err := os.CopyFS(filepath.Join(target, part), os.DirFS(source)); err != nil {
			return err
		}
	}
	return filepath.WalkDir(target, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, as.own(path))
	})
}
