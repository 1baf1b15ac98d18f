package otherlanguages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// A program in a document has the marker <!-- file: path --> in the line before its fence.
	listing = regexp.MustCompile("(?m)^(?:<!-- file: (\\S+) -->\n)?```(\\w*)\n((?s:.*?))^```$")
	// short is how many lines of another language a document may have without a file that the tests run.
	short = 3
)

// TestDocument_ProgramsAreTheFilesThatTheTestsRun covers the languages that are not Go, whose snippets internal/repo compares.
func TestDocument_ProgramsAreTheFilesThatTheTestsRun(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range []string{"other-languages.md", "outside-the-database.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", name))
		require.NoError(t, err)
		for _, block := range listing.FindAllStringSubmatch(string(text), -1) {
			path, language, code := block[1], block[2], block[3]
			switch {
			case language == "go":
			case path == "":
				require.LessOrEqual(t, strings.Count(code, "\n"), short, "%s: a block of %s without a file:\n%s", name, language, code)
			default:
				file, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(path)))
				require.NoError(t, err)
				require.Equal(t, string(file), code, "%s: %s", name, path)
				compared++
			}
		}
	}
	require.GreaterOrEqual(t, compared, 5)
}
