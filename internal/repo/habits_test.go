package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHabits_SkipsCanFailInCI: tests skip through pgtest.Skip, or through a function that looks at
// LEASEHOLD_NO_SKIP as it does. A bare t.Skip would pass for a test that holds.
func TestHabits_SkipsCanFailInCI(t *testing.T) {
	var wrong []string
	for _, f := range goFiles(t) {
		wrong = append(wrong, bareSkips(t, f)...)
	}
	require.Empty(t, wrong)
}

func TestHabits_SkipCheckFindsEachMistake(t *testing.T) {
	source := `package p

func TestA(t *testing.T) {
	t.Skip()
	pgtest.Skip(t, "no server")
	t.Run("b", func(t *testing.T) { t.Skipf("x") })
	t.SkipNow()
}

func skip(t *testing.T) {
	if os.Getenv("LEASEHOLD_NO_SKIP") == "1" {
		t.Fatal("no server")
	}
	t.Skip("no server")
}
`
	require.Equal(t, []string{"p_test.go:4: t.Skip", "p_test.go:6: t.Skipf", "p_test.go:7: t.SkipNow"},
		bareSkips(t, file{"p_test.go", source}))
}

// TestHabits_DecisionRecordsHaveFourParts: docs/decisions/NNNN-title.md, each number once.
func TestHabits_DecisionRecordsHaveFourParts(t *testing.T) {
	name := regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	seen := map[string]string{}
	for _, f := range tree(t) {
		if folder(f.path) != "docs/decisions" {
			continue
		}
		parts := name.FindStringSubmatch(path.Base(f.path))
		require.NotNil(t, parts, f.path)
		require.Empty(t, seen[parts[1]], "%s has the number of %s", f.path, seen[parts[1]])
		seen[parts[1]] = f.path
		for _, part := range []string{"context", "decision", "consequences", "rejected"} {
			require.True(t, headings(f.text)[part], "%s has no heading %q", f.path, part)
		}
	}
	require.Greater(t, len(seen), 1)
}

// TestHabits_MakefileTargetsAreInHelp: make help tells of every target.
func TestHabits_MakefileTargetsAreInHelp(t *testing.T) {
	makefile := read(t, "Makefile")
	targets := regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(makefile, -1)
	require.Greater(t, len(targets), 5)
	for _, target := range targets {
		require.Regexp(t, `(?m)^`+target[1]+`:.*## \w+`, makefile, "the target's line says what it does")
		require.Regexp(t, `(?m)^\.PHONY:.*\b`+target[1]+`\b`, makefile)
	}
}

// bareSkips finds the calls of t.Skip and its kin in functions that do not look at LEASEHOLD_NO_SKIP.
func bareSkips(t *testing.T, f file) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.text, 0)
	require.NoError(t, err)
	var found []string
	for _, decl := range parsed.Decls {
		text := f.text[fset.Position(decl.Pos()).Offset:fset.Position(decl.End()).Offset]
		if strings.Contains(text, `Getenv("LEASEHOLD_NO_SKIP")`) {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "SkipNow", "Skipf"}, selector.Sel.Name) {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && of.Name != "pgtest" {
				line := fset.Position(selector.Pos()).Line
				found = append(found, fmt.Sprintf("%s:%d: %s.%s", f.path, line, of.Name, selector.Sel.Name))
			}
			return true
		})
	}
	return found
}
