package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secretStrings are a right one, and some that pgx reads otherwise than meant.
var secretStrings = [8]string{
	"postgres://app:Zq7xK9@127.0.0.1:1/x", " postgres://u:Zq7xK9@h/db?sslmode=disable", `"postgres://u:Zq7xK9@h/db?sslmode=disable"`,
	"jdbc:postgresql://u:Zq7xK9@h/db?sslmode=disable", "Postgres://u:Zq7xK9@h.x/db?a=b", "postgres+x://u:Zq7xK9@h/db?sslmode=disable",
	"postgresql:/u:Zq7xK9@h/db?sslmode=disable", "postgres://:Zq7xK9@/",
}

// FuzzArguments: any words end with one of the four codes and a reason, show nothing of a connection string, and lead to a
// database only if one is named. The words are lines; a connection string with a password is one more of them.
func FuzzArguments(f *testing.F) {
	for _, line := range []string{
		"", "help", "migrate", "migrate up", "migrate up -to 3", "migrate up -to 99999999999999999999", "migrate down -yes -database", "migrate down -yes -to -1", "-", "--", "---", "-=", "migrate -x",
		"migrate version -database", "migrate version -timeout 1h1h", "migrate version -timeout 99999999h", "epoch raise -yes -database", "epoch raise", "sql acquire -psql -schema", "sql share -python",
		"sql gate -schema x", "migrate sql -schema", "version", "version -h", "help help help", "help migrate up", "migrate help up", "\x00", "migrate up --database=", "migrate up -schema \xff",
		"epoch raise -yes=maybe", "migrate up -database=postgres:///x -schema $user", "migrate up -- -database",
		"epoch raise -yes -database=sslmode=disable", "epoch raise -yes -database=postgres://", "epoch raise -yes -database=postgres://:@/", "migrate up -database=\t", "migrate up -database=port=1",
	} {
		words := strings.ReplaceAll(line, " ", "\n")
		f.Add(words, uint8(0))
		for place := range strings.Count(words, "\n") + 2 {
			for which := range secretStrings {
				f.Add(words, 128+uint8(16*which+place))
			}
		}
	}
	// Nothing goes out: names are not looked up, and the context is over before anything is dialled.
	before := net.DefaultResolver
	f.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no network here")
	}}
	f.Fuzz(func(t *testing.T, text string, place uint8) {
		if strings.Contains(text, "Zq7") || strings.Contains(text, "xK9") {
			return // A word without a connection string is shown.
		}
		words := strings.Split(text, "\n")
		if place >= 128 {
			words = slices.Insert(words, int(place%16)%(len(words)+1), secretStrings[place/16%8])
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cancel()
		var stdout, stderr bytes.Buffer
		code := run(ctx, words, environment{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }})
		said := stderr.String()
		switch code {
		case exitDone:
			require.NotEmpty(t, stdout.String())
			require.Empty(t, said)
		case exitUsage:
			require.Empty(t, stdout.String())
			require.Contains(t, said, `" for its usage.`)
		case exitFailed:
			require.Empty(t, stdout.String())
			require.True(t, strings.HasPrefix(said, "pglock: ") && strings.HasSuffix(said, "\n") && len(said) > 12, said)
		default:
			t.Fatalf("code %d without a database: %q", code, words)
		}
		require.NotContains(t, said, "Zq7")
		require.NotContains(t, said, "xK9")
		if strings.Contains(said, "connect: ") {
			require.True(t, slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(strings.TrimLeft(word, "-"), "database") }),
				"%q leads to a database that nobody named: %s", words, said)
		}
	})
}

// FuzzForms: the forms of a statement for psql and Python are the statement itself once the client has put its values in, whatever
// the schema is called.
func FuzzForms(f *testing.F) {
	for i, schema := range []string{
		"public", `a "$1" %s ':name' 100%`, `"`, `'`, `\`, `\'`, `:'name'`, `:"name"`, ":name", "%(name)s", "%%", "$1", "$$", "a\n--b", "--", "/*", "*/", "\\gset", "`id`", "{schema}", "{schema_text}",
		strings.Repeat("x", 63), "é", "a;b", "$99999999999999999999",
	} {
		f.Add(uint8(i), schema)
	}
	f.Fuzz(func(t *testing.T, which uint8, schema string) {
		list := printable()
		s := list[int(which)%len(list)]
		if _, err := list[0].text(schema, false); err != nil {
			return // Refused for all; FuzzStatement of pglock is about that.
		}
		text, err := s.text(schema, which >= 128)
		require.NoError(t, err)
		_, body := headed(text)
		require.Equal(t, strings.TrimSpace(body), python(t, s.forPython(text), s.parameters))

		_, form := headed(s.forPsql(text, schema))
		if s.psqlEnd != "" {
			form = strings.TrimSuffix(strings.TrimSpace(form), s.psqlEnd) + ";"
		}
		require.Equal(t, flat(body), flat(psql(form, s.parameters, schema)))
	})
}

// flat leaves out how lines are broken at the end.
func flat(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, ";", " ;")), " ")
}

// python is what a driver makes of a text and values, with $1 and so on for the values.
func python(t *testing.T, text string, parameters []parameter) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		i++
		require.Less(t, i, len(text))
		if text[i] == '%' {
			b.WriteByte('%')
			continue
		}
		name, _, ok := strings.Cut(text[i:], ")s")
		require.True(t, ok && name[0] == '(', text[i:])
		index := slices.IndexFunc(parameters, func(p parameter) bool { return p.name == name[1:] })
		require.GreaterOrEqual(t, index, 0, name)
		b.WriteString("$" + string(rune('1'+index)))
		i += len(name) + 1
	}
	return strings.TrimSpace(b.String())
}

// psql finds where psql puts values: outside of quotes, comments not being there. It gives $1 and so on back.
func psql(text string, parameters []parameter, schema string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if c := text[i]; c == '"' || c == '\'' {
			// A quote within is doubled, and a backslash in an E string is too, so neither ends it.
			end := i + 1
			for end < len(text) && (text[end] != c || end+1 < len(text) && text[end+1] == c) {
				if text[end] == c {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			b.WriteString(text[i:end])
			i = end
			continue
		}
		replaced := false
		for n, p := range parameters {
			if shown := p.inPsql(schema); strings.HasPrefix(text[i:], shown) {
				b.WriteString("$" + string(rune('1'+n)))
				i += len(shown)
				replaced = true
				break
			}
		}
		if !replaced {
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String()
}
