package repo

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWords_NoFileNamesWhatOnlyOneMachineHas: hosts of package registries (a user's may be another), folders of
// the machine that a file was written on, and the tools it was written with.
func TestWords_NoFileNamesWhatOnlyOneMachineHas(t *testing.T) {
	files, lines := tree(t), 0
	var wrong []string
	for _, f := range files {
		wrong = append(wrong, outOfPlace(f)...)
		lines += strings.Count(f.text, "\n")
	}
	require.Empty(t, wrong)
	require.Greater(t, lines, 2000)
}

func TestWords_CheckFindsEachMistake(t *testing.T) {
	for _, text := range []string{
		"GOPROXY=https://proxy." + "example.org",
		"npm --registry http://registry." + "example.com/x",
		"deb http://deb." + "example.org/debian bookworm main",
		"see /wor" + "k/shared/design.md",
		"cd '/roo" + "t/project'",
		"written with " + rot13("pynhqr") + " in a day",
		"by " + strings.ToUpper(rot13("pungtcg")),
	} {
		require.Len(t, outOfPlace(file{"a.md", "first line\n" + text + "\n"}), 1, text)
	}
	for _, text := range []string{
		"../shared/design.md", "examples/work/main.go", "docker.io", "proxy.Close()", "https://pkg.go.dev/x",
		"apt-get install pgbouncer", "a cursor of a portal", "the user's root/ folder", "/home/linuxbrew/",
	} {
		require.Empty(t, outOfPlace(file{"a.md", text + "\n"}), text)
	}
}

var (
	registries = regexp.MustCompile(`\b(registry|proxy|sum|deb|security|mirrors?|repo\d?|pypi)\.[a-z0-9-]+\.(org|com|io|net|dev)\b`)
	machine    = regexp.MustCompile(`(^|[^\w.-])/(work|root|tmp/spec)/`)
	// writers are tools that write text and code, turned by 13 letters so that this file passes its own test.
	writers = regexp.MustCompile(`(?i)\b(` + rot13("pynhqr|naguebcvp|pungtcg|bcranv|pbcvybg|pbqrk|trzvav|yyz") + `)\b`)
)

// outOfPlace returns the place of each line that names one of them.
func outOfPlace(f file) []string {
	var wrong []string
	number := 0
	for line := range strings.Lines(f.text) {
		number++
		for _, pattern := range []*regexp.Regexp{registries, machine, writers} {
			if match := pattern.FindString(line); match != "" {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s", f.path, number, strings.TrimSpace(match)))
			}
		}
	}
	return wrong
}

func rot13(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, text)
}
