package migrations_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/migrations"
)

func TestFS_NumbersRiseByOneAndEachHasAWayBack(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^(\d{4})_[a-z_]+\.(up|down)\.sql$`)
	files, err := fs.Glob(migrations.FS, "*")
	require.NoError(t, err)
	require.Len(t, files, 2*migrations.Newest)
	slices.Sort(files)
	for i, file := range files {
		parts := name.FindStringSubmatch(file)
		require.NotNil(t, parts, file)
		require.Equal(t, []string{"down", "up"}[i%2], parts[2], file)
		require.Regexp(t, `^0*`+string(rune('1'+i/2))+`$`, parts[1], file)
	}
	require.Less(t, migrations.Newest, 10, "the line above compares one digit")
}

// TestFS_FilesAreTransactional: each file must be one transaction under any tool, and bear being run again.
func TestFS_FilesAreTransactional(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations.FS, "*")
	require.NoError(t, err)
	never := regexp.MustCompile(`(?i)\b(CONCURRENTLY|BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|SAVEPOINT|VACUUM|SET\s+(SESSION|LOCAL)|search_path|ALTER\s+SYSTEM|CREATE\s+DATABASE|TABLESPACE)\b|^\s*\\`)
	again := regexp.MustCompile(`(?i)^(CREATE TABLE IF NOT EXISTS|CREATE OR REPLACE VIEW|DO|DROP (TABLE|VIEW|FUNCTION) IF EXISTS|COMMENT ON)\b`)
	for _, file := range files {
		text, err := fs.ReadFile(migrations.FS, file)
		require.NoError(t, err)
		for _, statement := range statements(string(text)) {
			require.NotRegexp(t, never, statement, file)
			require.Regexp(t, again, statement, "%s: a new kind of statement: may it run again?", file)
		}
	}
	require.Regexp(t, never, "CREATE INDEX CONCURRENTLY x")
}

// statements cuts a file at its semicolons, without comments and the text of literals and DO blocks.
func statements(text string) (list []string) {
	text = regexp.MustCompile(`(?s)\$do\$.*?\$do\$`).ReplaceAllString(text, "''")
	text = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`'[^']*'`).ReplaceAllString(text, "''")
	for statement := range strings.SplitSeq(text, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			list = append(list, statement)
		}
	}
	return list
}
