package repo

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// siblings says which packages of this module a package may import outside its tests: the longest matching
// prefix decides. What is not listed may import none. Imports point one way, towards fencing.
var siblings = map[string][]string{
	"fencing":    {},
	"migrations": {},
	"pglock":     {"fencing"},
	"bench":      {"bench", "fencing", "internal", "migrations", "pglock"},
	"cmd":        {"cmd", "fencing", "internal", "migrations", "pglock"},
	"examples":   {"examples", "fencing", "internal", "migrations", "pglock"},
	"internal":   {"fencing", "internal", "migrations", "pglock"},
}

// outside says where a module may be imported: folders of this module, and whether their tests may.
// The reason for each: a user of pglock or fencing must not inherit it.
var outside = []struct {
	prefix  string
	folders []string
	tests   bool
}{
	{"github.com/golang-migrate/migrate", []string{"cmd", "migrations"}, true},
	{"github.com/testcontainers/testcontainers-go", []string{"internal"}, true},
	{"github.com/fergusstrange/embedded-postgres", []string{"internal"}, true},
	{"github.com/anishathalye/porcupine", []string{"internal"}, true},
	{"github.com/stretchr/testify", []string{"internal"}, true},
	{"go.uber.org/goleak", []string{"internal"}, true},
}

func TestImports_PointOneWay(t *testing.T) {
	files := goFiles(t)
	require.Empty(t, misdirected(t, files))

	// The rules have something to hold: each folder exists, and the two edges that matter are there.
	edges := map[string]bool{}
	for _, f := range files {
		for _, imported := range imports(t, f) {
			edges[folder(f.path)+" "+imported] = true
		}
	}
	require.True(t, edges["pglock "+module+"/fencing"], "pglock imports fencing")
	require.True(t, slices.ContainsFunc(files, func(f file) bool {
		return folder(f.path) == "migrations" && !isTest(f.path) &&
			strings.Contains(f.text, `"github.com/golang-migrate/migrate/v4`)
	}), "migrations imports golang-migrate")
}

// TestImports_UsersInheritOnlyPgx looks at all that pglock and fencing bring along, not only at their own lines.
func TestImports_UsersInheritOnlyPgx(t *testing.T) {
	tree(t)
	deps := goList(t, append([]string{"-deps"}, local([]string{"fencing", "pglock"})...)...)
	require.Contains(t, deps, "github.com/jackc/pgx/v5\n")
	for dep := range strings.Lines(deps) {
		dep = strings.TrimSpace(dep)
		for _, rule := range outside {
			require.False(t, strings.HasPrefix(dep, rule.prefix), dep)
		}
	}
}

func TestImports_CheckFindsEachMistake(t *testing.T) {
	source := func(imported string) string { return fmt.Sprintf("package p\n\nimport _ %q\n", imported) }
	for name, wrong := range map[string]file{
		"fencing imports a sibling":         {"fencing/a.go", source(module + "/pglock")},
		"fencing imports internal":          {"fencing/a.go", source(module + "/internal/pgtest")},
		"pglock imports migrations":         {"pglock/a.go", source(module + "/migrations")},
		"pglock imports internal":           {"pglock/a.go", source(module + "/internal/pgtest")},
		"migrations imports pglock":         {"migrations/a.go", source(module + "/pglock")},
		"internal imports an example":       {"internal/pgtest/a.go", source(module + "/examples/invoicejob")},
		"an unknown folder imports pglock":  {"extra/a.go", source(module + "/pglock")},
		"a user's package imports testify":  {"pglock/a.go", source("github.com/stretchr/testify/require")},
		"pglock imports golang-migrate":     {"pglock/a.go", source("github.com/golang-migrate/migrate/v4/database")},
		"an example imports testcontainers": {"examples/a/a.go", source("github.com/testcontainers/testcontainers-go/modules/postgres")},
	} {
		require.Len(t, misdirected(t, []file{wrong}), 1, name)
	}
	for name, right := range map[string]file{
		"a test of fencing":     {"fencing/a_test.go", source(module + "/internal/pgtest")},
		"pglock imports a leaf": {"pglock/a.go", source(module + "/fencing")},
		"migrations":            {"migrations/a.go", source("github.com/golang-migrate/migrate/v4")},
		"an integration test":   {"integration_test.go", source("github.com/testcontainers/testcontainers-go")},
		"a test server":         {"internal/pgtest/a.go", source("github.com/testcontainers/testcontainers-go")},
	} {
		require.Empty(t, misdirected(t, []file{right}), name)
	}
}

// misdirected returns a line for each import that the rules do not allow.
func misdirected(t *testing.T, files []file) []string {
	t.Helper()
	var wrong []string
	for _, f := range files {
		for _, imported := range imports(t, f) {
			if !allowed(f.path, imported) {
				wrong = append(wrong, f.path+" imports "+imported)
			}
		}
	}
	return wrong
}

func allowed(name, imported string) bool {
	if sibling, ok := strings.CutPrefix(imported, module+"/"); ok {
		return isTest(name) || slices.ContainsFunc(siblings[top(name)], func(prefix string) bool {
			return within(sibling, prefix)
		})
	}
	for _, rule := range outside {
		if strings.HasPrefix(imported, rule.prefix) {
			return rule.tests && isTest(name) || slices.Contains(rule.folders, top(name))
		}
	}
	return true
}

func imports(t *testing.T, f file) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
	require.NoError(t, err)
	var paths []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, imported)
	}
	return paths
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

func folder(name string) string { return path.Dir(name) }

// top is the first folder of a path, "" for a file of the module's root.
func top(name string) string {
	first, _, nested := strings.Cut(name, "/")
	if !nested {
		return ""
	}
	return first
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }
