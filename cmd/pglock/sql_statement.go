package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A statement is one that can be printed.
type statement struct {
	name    string
	summary string
	// text is the statement with $1, $2 and so on, its header before it and a semicolon behind it.
	text       func(schema string, plain bool) (string, error)
	parameters []parameter
	psqlEnd    string // stands for the semicolon; empty: psql shows the rows
}

// A parameter is what stands for $1 in the other forms.
type parameter struct {
	name string
	psql string // the expression, if it is not :'name'
	gate bool   // psql computes it from the name
}

const formNotes = `Connects to nothing. The comment on top tells what the parameters and the rows mean.

Without -psql or -python the parameters are $1, $2 and so on. With -psql they are the variables that the comment names, and
the columns of the row become variables that begin with lease_ or fence_; no row is then an error, which ends a
script under ON_ERROR_STOP.

A server that answers acquire, enter or identify with SQLSTATE 42501, 42883 or 0A000 wants -plain, for all who use it.
`

// token splits a statement: quoted text, in which nothing is replaced, and parameters.
var token = regexp.MustCompile(`"(?:[^"]|"")*"|'(?:[^']|'')*'|\$\d+`)

// replaced puts what is given for a parameter in its place.
func replaced(body string, by func(index int) string) string {
	return token.ReplaceAllStringFunc(body, func(found string) string {
		if found[0] != '$' {
			return found
		}
		index, err := strconv.Atoi(found[1:])
		if err != nil {
			return found // More digits than a number has: no parameter of ours.
		}
		return by(index - 1)
	})
}

// forPsql is for \i: psql replaces the variables, quoted, wherever they do not stand in quotes.
func (s statement) forPsql(text, schema string) string {
	header, body := headed(text)
	for i, p := range s.parameters {
		shown := p.inPsql(schema)
		if p.gate {
			shown = "computed from :'name'" // The schema in it may have a line break.
		}
		header += fmt.Sprintf("-- $%d is %s\n", i+1, shown)
	}
	body = replaced(body, func(i int) string { return s.parameters[i].inPsql(schema) })
	if s.psqlEnd != "" {
		body = strings.TrimSuffix(body, ";\n") + "\n" + s.psqlEnd + "\n"
	}
	return header + body
}

func (p parameter) inPsql(schema string) string {
	switch {
	case p.gate:
		return gateExpression(schema, ":'name'")
	case p.psql != "":
		return p.psql
	}
	return ":'" + p.name + "'"
}

// forPython has no comments: the driver would put values into them too.
func (s statement) forPython(text string) string {
	_, body := headed(text)
	body = strings.ReplaceAll(body, "%", "%%")
	return replaced(body, func(i int) string { return "%(" + s.parameters[i].name + ")s" })
}

// headed splits the comment lines on top from the rest.
func headed(text string) (header, body string) {
	rest := text
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		rest = rest[len(line):]
	}
	return text[:len(text)-len(rest)], rest
}

// gateExpression is the key of a name's gate, as pglock computes it. decode, because a '\x00' reads differently under
// standard_conforming_strings = off.
func gateExpression(schema, name string) string {
	return "('x' || encode(substr(sha256(pg_catalog.convert_to('pglock gate 1', 'UTF8') || decode('00', 'hex') || pg_catalog.convert_to(" +
		literal(schema) + ", 'UTF8') || decode('00', 'hex') || pg_catalog.convert_to(" + name +
		", 'UTF8') || decode('00', 'hex')), 1, 8), 'hex'))::bit(64)::bigint"
}

// gateStatement is no file of the library, which computes the key itself.
func gateStatement(schema string, _ bool) (string, error) {
	return `-- Gate: the key of a name's advisory gate, for acquire.
--
--   $1 text  name
--
-- One row: the key. Clock: none. Isolation: any.
SELECT ` + gateExpression(schema, "$1::text") + " AS gate;\n", nil
}

// literal quotes a string so that it reads the same whatever standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
