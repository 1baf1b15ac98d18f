package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPglock_BuildsAndSaysItsVersion(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "pglock")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(program, "version").Output()
	require.NoError(t, err)
	require.Regexp(t, `^pglock \S+, tables version `+newest+`$`, string(out))
}

func TestPglock_HelpGoesToStdout(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"help"}, {"-h"}, {"-help"}, {"--help"}, {"help", "migrate"}, {"help", "migrate", "up"}, {"migrate", "help"}, {"help", "sql"}, {"sql", "share", "-h"},
		{"migrate", "help", "down"}, {"migrate", "up", "-h"}, {"version", "-help"}, {"help", "version"},
	} {
		code, stdout, stderr := pglockRun(t, nil, words...)
		require.Zero(t, code, words)
		require.Contains(t, stdout, "Usage: pglock", words)
		require.Contains(t, stdout, "Exit codes:", words)
		require.Empty(t, stderr, words)
	}
	require.Contains(t, mustRun(t, nil, "migrate", "down", "-h"), "tokens start again from 1")
}

func TestPglock_WrongUseExitsWith2AndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for words, says := range map[string]string{
		"":                                 "no command given; one of: migrate, epoch, sql, version, help",
		"migrat":                           `unknown command "migrat"`,
		"migrate":                          "one of: up, down, version, sql, help",
		"migrate upp":                      `unknown command "upp"`,
		"help nothing":                     `no help on "nothing"`,
		"help migrate nothing":             `no help on "nothing"`,
		"migrate up -x":                    "not defined",
		"migrate up -to":                   "needs an argument",
		"migrate up -to x":                 "invalid value for flag -to",
		"migrate up -to 9":                 "versions are 1 to " + strings.TrimSpace(newest),
		"migrate down -yes -to -1":         "versions are 1 to " + strings.TrimSpace(newest),
		"migrate up -timeout 5":            "invalid value for flag -timeout",
		"migrate up -timeout -5s":          "must not be negative",
		"migrate version extra":            `got "extra"`,
		"sql nothing":                      `unknown command "nothing"`,
		"sql acquire -psql -python":        "give one",
		"migrate sql -database x":          "not defined",
		"migrate down":                     "add -yes",
		"migrate down -database host=x.zz": "add -yes",
	} {
		code, stdout, stderr := pglockRun(t, nil, strings.Fields(words)...)
		require.Equal(t, 2, code, words)
		require.Empty(t, stdout, words)
		require.Contains(t, stderr, says, words)
		require.Regexp(t, `(?m)^Run "pglock.* -help" for its usage\.$`, stderr, words)
	}
}

func TestPglock_BadSchemaIsRefusedWithoutADatabase(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"up", "version", "sql"} {
		code, _, stderr := pglockRun(t, []string{"PGHOST=/nowhere"}, "migrate", command, "-schema", "$user")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, `schema "$user": means the current user`)
	}
}

// TestPglock_EmptySchemaIsRefused: -schema "$UNSET" in a script must not mean the default.
func TestPglock_EmptySchemaIsRefused(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"migrate", "down", "-yes"}, {"migrate", "up"}, {"epoch", "raise", "-yes"}} {
		code, _, stderr := pglockRun(t, nil, append(words, "-schema", "")...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "-schema is empty")
	}
}

// TestPglock_NoDatabaseIsGuessed: -database "$UNSET", or no variable at all, must not lead to the database on this machine.
func TestPglock_NoDatabaseIsGuessed(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"migrate", "down", "-yes"}, {"migrate", "up"}, {"migrate", "version"}, {"epoch", "raise", "-yes"}} {
		code, stdout, stderr := pglockRun(t, nil, words...)
		require.Equal(t, 2, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "no database given: set -database or one of DATABASE_URL, PGHOST")
		code, _, stderr = pglockRun(t, []string{"DATABASE_URL=host=127.0.0.1 port=1", "PGHOST=127.0.0.1"}, append(words, "-database", "")...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "-database is empty")
	}
}
