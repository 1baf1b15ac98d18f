package repo

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSQL_FilesHaveHeaders: a statement says its parameters, what its rows mean, which clock it reads and what
// isolation it expects; a migration says why it exists; each is readable without the Go code around it.
func TestSQL_FilesHaveHeaders(t *testing.T) {
	var statements, migrations []string
	var wrong []string
	for _, f := range tree(t) {
		if path.Ext(f.path) != ".sql" {
			continue
		}
		switch top(f.path) {
		case "pglock", "fencing":
			statements = append(statements, f.path)
		case "migrations":
			migrations = append(migrations, f.path)
		}
		wrong = append(wrong, headless(f)...)
	}
	require.Empty(t, wrong)
	require.GreaterOrEqual(t, len(statements), 5, "the statements of pglock")
	require.GreaterOrEqual(t, len(migrations), 6, "the migrations")
}

// TestSQL_MigrationsAreNumberedPairs: versions count from 1 without a gap, each with its way back.
func TestSQL_MigrationsAreNumberedPairs(t *testing.T) {
	name := regexp.MustCompile(`^migrations/(\d{4})_([a-z_]+)\.(up|down)\.sql$`)
	pairs := map[string][]string{}
	for _, f := range tree(t) {
		if top(f.path) == "migrations" && path.Ext(f.path) == ".sql" {
			parts := name.FindStringSubmatch(f.path)
			require.NotNil(t, parts, f.path)
			pairs[parts[1]+"_"+parts[2]] = append(pairs[parts[1]+"_"+parts[2]], parts[3])
		}
	}
	require.GreaterOrEqual(t, len(pairs), 3)
	versions := make([]string, 0, len(pairs))
	for version, directions := range pairs {
		require.ElementsMatch(t, []string{"up", "down"}, directions, version)
		versions = append(versions, version)
	}
	slices.Sort(versions)
	for i, version := range versions {
		require.True(t, strings.HasPrefix(version, fmt.Sprintf("%04d_", i+1)), "%s follows %d others", version, i)
	}
}

func TestSQL_CheckFindsEachMistake(t *testing.T) {
	const good = "-- Renew: extend a term.\n--\n--   $1 text  name\n--\n-- 0 rows: lost.\n--\n-- Clock: none. Isolation: any.\nSELECT $1::text;\n"
	require.Empty(t, headless(file{"pglock/sql/a.sql", good}))
	for name, text := range map[string]string{
		"no header":     "SELECT 1;\n",
		"a parameter":   strings.Replace(good, "$1::text", "$1::text, $2::text", 1),
		"the rows":      strings.Replace(good, "0 rows: lost.", "Lost.", 1),
		"the clock":     strings.Replace(good, "Clock", "Time", 1),
		"the isolation": strings.Replace(good, "Isolation", "Level", 1),
	} {
		require.Len(t, headless(file{"pglock/sql/a.sql", text}), 1, name)
	}
	require.Len(t, headless(file{"migrations/0001_a.up.sql", "-- Makes a table.\nSELECT 1;\n"}), 1)
	require.Len(t, headless(file{"migrations/0001_a.down.sql", "SELECT 1;\n"}), 1)
	require.Empty(t, headless(file{"migrations/0001_a.up.sql", "-- Why: one row a name is the state.\nSELECT 1;\n"}))
}

var (
	parameter = regexp.MustCompile(`\$\d+`)
	rows      = regexp.MustCompile(`\brows?\b`)
)

// headless returns what the header of a SQL file does not say.
func headless(f file) []string {
	header, body := split(f.text)
	if len(strings.Fields(header)) < 4 {
		return []string{f.path + ": no header"}
	}
	var missing []string
	need := func(ok bool, what string) {
		if !ok {
			missing = append(missing, f.path+": the header does not say "+what)
		}
	}
	switch {
	case strings.HasSuffix(f.path, ".up.sql"):
		need(strings.HasPrefix(header, "Why: "), "why")
	case strings.Contains(f.path, "/sql/"):
		for _, name := range parameter.FindAllString(body, -1) {
			need(strings.Contains(header, name+" "), name)
		}
		need(rows.MatchString(header), "what the rows mean")
		need(strings.Contains(header, "Clock:"), "which clock it reads")
		need(strings.Contains(header, "Isolation:"), "which isolation it expects")
	}
	return slices.Compact(missing)
}

// split separates the comment lines at the top from the rest.
func split(text string) (header, body string) {
	var comment []string
	rest := text
	for line := range strings.Lines(text) {
		content, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "--")
		if !ok {
			break
		}
		comment = append(comment, strings.TrimPrefix(content, " "))
		rest = rest[len(line):]
	}
	return strings.Join(comment, "\n"), rest
}
