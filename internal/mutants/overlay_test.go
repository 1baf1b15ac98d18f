package mutants

import (
	"path/filepath"
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
