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

// TestPglock_NamelessDatabaseIsRefused: a string of variables that are not set must not lead to the database of the PG* variables.
func TestPglock_NamelessDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		" ":                                  "-database is empty",
		"\t\n":                               "-database is empty",
		"sslmode=disable":                    "names no host",
		"port=5432 password=Zq7xK9":          "names no host",
		"host='' dbname='' password=Zq7xK9":  "names no host",
		"host='' application_name='host=h'":  "names no host",
		"postgres://":                        "names no host",
		"postgres://:@/":                     "names no host",
		"postgres://:Zq7xK9@:5432/":          "names no host",
		"postgres://:@:1,:2/?sslmode=verify": "names no host",
		"postgres://%20/%20?host=&user=":     "names no host",
		"postgresql:///?sslmode=disable":     "names no host",
	} {
		for _, words := range [][]string{{"migrate", "down", "-yes"}, {"migrate", "up"}, {"epoch", "raise", "-yes"}} {
			requireRefused(t, says, nobody(), append(words, "-database", text)...)
		}
		if strings.HasPrefix(says, "names") {
			requireRefused(t, "DATABASE_URL "+says, nobody("DATABASE_URL="+text), "migrate", "up")
			continue
		}
		requireRefused(t, "no database given", []string{"DATABASE_URL=" + text, "PGHOST= "}, "migrate", "up")
		code, _, stderr := pglockRun(t, nobody("DATABASE_URL="+text), "migrate", "version")
		require.Equal(t, 1, code, "a blank DATABASE_URL leaves it to the PG* variables")
		require.Contains(t, stderr, "127.0.0.1:1")
	}
}

// TestPglock_NoParameterIsCalledLikeAURL: pgx would connect to the server of the PG* variables, and that one would show the string.
func TestPglock_NoParameterIsCalledLikeAURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		" postgres://u:Zq7xK9@h/db?sslmode=disable", `"postgres://u:Zq7xK9@h/db?sslmode=disable"`, "'postgres://u:Zq7xK9@h/db?sslmode=disable'",
		"jdbc:postgresql://u:Zq7xK9@h/db?sslmode=disable", "jdbc:postgresql://h.example.com/db?user=u&password=Zq7xK9",
		"Postgres://u:Zq7xK9@h/db?sslmode=disable", "postgres+x://u:Zq7xK9@h.x/db?a=b", "postgresql:/u:Zq7xK9@h/db?sslmode=disable",
		"\npostgres://u:Zq7xK9@h/db?sslmode=disable", "jdbc:postgresql://u:Zq7xK9@h/db", "//u:Zq7xK9@h/db?sslmode=disable",
		"u:Zq7xK9@h/db?user=u", "postgres://h/db?a%3AZq7xK9=b", "host=h password=a Zq7xK9 user=b",
		"user= password=Zq7xK9", "host= dbname= password=Zq7xK9", "user=a dbname= password=Zq7xK9",
	} {
		requireRefused(t, "-database is not understood", nobody(), "epoch", "raise", "-yes", "-database", text)
		requireRefused(t, "DATABASE_URL is not understood", nobody("DATABASE_URL="+text), "migrate", "up")
	}
}

// TestPglock_WhatNamesADatabaseIsTried: each of these is enough, and the rest comes from the PG* variables.
func TestPglock_WhatNamesADatabaseIsTried(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"host=127.0.0.1", "user=app", " dbname = x ", "database=x", "application_name='a b' user='a b'", "postgres://127.0.0.1", "postgres://app@",
		"postgres:///x", "postgresql://:5/?user=app&port=1", "postgres://?host=127.0.0.1", "postgres:///?dbname=x&a.b=c", "postgres://[127.0.0.1]:1/",
		"postgres://127.0.0.1:1,127.0.0.1:1/", `host=127.0.0.1 password='it\'s =' a=b`,
		"user=app application_name='host=h' password='user=x'",
	} {
		code, _, stderr := pglockRun(t, nobody(), "migrate", "version", "-database", text)
		require.Equal(t, 1, code, "%s: %s", text, stderr)
		require.Contains(t, stderr, "127.0.0.1:1", text)
	}
}

// nobody is an environment with a server that does not listen: whoever connects to it ends with code 1.
func nobody(more ...string) []string {
	return append([]string{"PGHOST=127.0.0.1", "PGPORT=1", "PGUSER=u", "PGDATABASE=d"}, more...)
}

func requireRefused(t *testing.T, says string, env []string, words ...string) {
	t.Helper()
	code, stdout, stderr := pglockRun(t, env, words...)
	require.Equal(t, 2, code, "%q: %s", words, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, says)
	require.NotContains(t, stderr, "Zq7")
	require.NotContains(t, stderr, "xK9")
}
