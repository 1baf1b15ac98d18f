package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

func TestMutants_EditsFit(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range All() {
		_, err := m.overlay(root(t), t.TempDir())
		require.NoError(t, err)
		require.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		require.True(t, m.Suite == nil || m.Rules == nil, "%s: either the torture finds it or a test", m.Name)
	}
}

func TestMutants_AnEditThatDoesNotFitIsAnError(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"no such text", "clock_timestamp()"} {
		m := Mutant{Name: "unfit", Edits: []Edit{{renewSQL, from, "now()"}}}
		_, err := m.overlay(root(t), t.TempDir())
		require.ErrorContains(t, err, "instead of once", from)
	}
}

// The page lists each mutant, and no other, with what finds it.
func TestMutants_AreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(t), "docs/mutants.md"))
	require.NoError(t, err)
	var listed [][]string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && !strings.HasPrefix(line, "| mutant |") {
			listed = append(listed, cells)
		}
	}
	require.Len(t, listed, len(All()))
	for i, m := range All() {
		name, foundBy := strings.TrimPrefix(listed[i][0], "| "), strings.Split(listed[i][2], "; ")
		require.Equal(t, m.Name, name)
		switch {
		case m.Suite != nil:
			require.Equal(t, []string{m.Suite.Run}, foundBy, name)
		case m.Rules == nil:
			require.Equal(t, []string{"nothing"}, foundBy, name)
		default:
			require.Subset(t, m.Rules, foundBy, name)
		}
	}
}
