package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHabits_SkipsGoThroughPgtest: a skip must be able to fail in CI, which pgtest.Skip does under
// LEASEHOLD_NO_SKIP=1 and t.Skip does not.
func TestHabits_SkipsGoThroughPgtest(t *testing.T) {
	var wrong []string
	for _, f := range goFiles(t) {
		if within(f.path, "internal/pgtest") && !isTest(f.path) {
			continue // where Skip is
		}
		wrong = append(wrong, calls(t, f, "Skip", "SkipNow", "Skipf")...)
	}
	require.Empty(t, wrong)
}

func TestHabits_SkipCheckFindsEachMistake(t *testing.T) {
	source := "package p\nfunc TestA(t *testing.T) {\n\tt.Skip()\n\tpgtest.Skip(t, \"no\")\n\tb.Skipf(\"x\")\n\tt.SkipNow()\n}\n"
	require.Equal(t, []string{"p_test.go:3: t.Skip", "p_test.go:5: b.Skipf", "p_test.go:6: t.SkipNow"},
		calls(t, file{"p_test.go", source}, "Skip", "SkipNow", "Skipf"))
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

// calls finds method calls of the given names, those on the package pgtest left out.
func calls(t *testing.T, f file, names ...string) []string {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.text, 0)
	require.NoError(t, err)
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, selector.Sel.Name) {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && of.Name != "pgtest" {
			found = append(found, fmt.Sprintf("%s:%d: %s.%s", f.path, fset.Position(call.Pos()).Line, of.Name, selector.Sel.Name))
		}
		return true
	})
	return found
}
