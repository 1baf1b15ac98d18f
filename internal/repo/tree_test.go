package repo

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const module = "github.com/leasehold-go/leasehold"

// packages are the ones that users import, relative to the module.
var packages = []string{"fencing", "migrations", "pglock"}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is one text file of the project; path is relative to the module's root, with slashes.
type file struct {
	path string
	text string
}

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// tree reads the project's text files, without what .gitignore names. Each file is opened by this process, so
// that the test cache knows what the result depends on.
func tree(t *testing.T) []file {
	t.Helper()
	dir := root(t)
	skip := ignored(t, dir)
	var files []file
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if rel == ".git" || skip(rel+"/") {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || rel == ".git" || skip(rel) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "\x00") {
			files = append(files, file{rel, string(text)})
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(files), 40, "the walk must see the project")
	return files
}

// ignored reads .gitignore, whose lines are of two forms here: /folder/ and *.ending.
func ignored(t *testing.T, dir string) func(rel string) bool {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, ".gitignore"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var folders, patterns []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/"):
			folders = append(folders, strings.TrimPrefix(line, "/"))
		case strings.HasPrefix(line, "*."):
			patterns = append(patterns, line)
		default:
			t.Fatalf(".gitignore: %q is neither /folder/ nor *.ending", line)
		}
	}
	require.NoError(t, lines.Err())
	return func(rel string) bool {
		for _, folder := range folders {
			if rel == folder {
				return true
			}
		}
		for _, pattern := range patterns {
			if ok, _ := path.Match(pattern, path.Base(rel)); ok {
				return true
			}
		}
		return false
	}
}

// goFiles are the Go files of the tree, testdata left out.
func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	for _, f := range tree(t) {
		if path.Ext(f.path) == ".go" && !strings.Contains("/"+f.path, "/testdata/") {
			files = append(files, f)
		}
	}
	require.NotEmpty(t, files)
	return files
}

// read is one file of the project.
func read(t *testing.T, rel string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(rel)))
	require.NoError(t, err)
	return string(text)
}
