package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

var numbered = regexp.MustCompile(`\$\d+`)

// printedParameters are those that stand in the text, sorted and once each.
func printedParameters(text string) []string {
	found := numbered.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestSQL_EveryStatementIsTakenByTheServer(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	conn := connect(t, dsn)
	for _, s := range printable() {
		for _, plain := range []bool{false, true} {
			text, err := s.text(schema, plain)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(text, ";\n"), s.name)
			require.True(t, strings.HasPrefix(text, "-- "), s.name)
			description, err := conn.Prepare(limit(t), "", text)
			require.NoError(t, err, "%s: %s", s.name, text)
			require.Len(t, description.ParamOIDs, len(s.parameters), s.name)
			require.NotEmpty(t, description.Fields, s.name)
		}
	}
}

func TestSQL_EveryHeaderNamesItsParameters(t *testing.T) {
	t.Parallel()
	for _, s := range printable() {
		text, err := s.text("public", false)
		require.NoError(t, err)
		header, body := headed(text)
		require.Equal(t, printedParameters(body), printedParameters(header), s.name)
		require.Len(t, printedParameters(body), len(s.parameters), s.name)
		require.NotContains(t, body, "{schema}")
		require.NotContains(t, body, "--", s.name)
	}
}

func TestSQL_FormsReplaceEveryParameterAndNothingInQuotes(t *testing.T) {
	t.Parallel()
	const schema = `a "$1" %s ':name' 100%`
	for _, s := range printable() {
		text, err := s.text(schema, false)
		require.NoError(t, err)
		kept := strings.Count(text, schema) + strings.Count(text, quote(schema)) + strings.Count(text, literal(schema))
		if s.name != "gate" && s.name != "blocker" {
			require.Positive(t, kept, s.name)
		}

		_, psql := headed(s.forPsql(text, schema))
		psql = strings.NewReplacer(quote(schema), "", literal(schema), "").Replace(psql)
		require.Empty(t, printedParameters(psql), s.name)
		require.NotContains(t, psql, "\\gset\n\\gset", s.name)

		python := s.forPython(text)
		require.NotContains(t, python, "--", s.name)
		for _, p := range s.parameters {
			require.Contains(t, python, "%("+p.name+")s", s.name)
		}
		// What a driver makes of it: each %( )s a value, each %% one.
		python = regexp.MustCompile(`%\([a-z]+\)s`).ReplaceAllString(python, "NULL")
		python = strings.NewReplacer(quote(strings.ReplaceAll(schema, "%", "%%")), "", literal(strings.ReplaceAll(schema, "%", "%%")), "").Replace(python)
		require.NotContains(t, python, "%", s.name)
		require.Empty(t, printedParameters(python), s.name)
	}
}

func TestSQL_TwoFormsAtOnceAndBadSchemasAreRefused(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := pglockRun(t, nil, "sql", "acquire", "-psql", "-python")
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "give one")
	for _, s := range []string{"acquire", "advance", "gate", "read"} {
		code, stdout, stderr = pglockRun(t, nil, "sql", s, "-schema", strings.Repeat("x", 64))
		require.Equal(t, 1, code, s)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "at most 63", s)
	}
	require.Contains(t, mustRun(t, nil, "sql", "acquire"), `"public".pglock_leases`)
	require.NotContains(t, mustRun(t, nil, "sql", "acquire", "-plain"), "pg_control_system")
	require.Contains(t, mustRun(t, nil, "sql", "acquire"), "pg_control_system")
}
