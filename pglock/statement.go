package pglock

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Statement returns the text of pglock/sql/<name>.sql for a schema, for a writer in another language: the comment that says
// what its parameters and rows mean, and the very statement that a [Client] sends. Names are acquire, blocker, enter,
// identify, inspect, raise, reap, release and renew.
//
// With plain it is the variant for a server that does not tell which cluster it is, as the client uses it there: one that
// answers acquire, enter, identify or raise with SQLSTATE 42501, 42883 or 0A000.
//
// It asks no database. An error says that there is no such statement, or that the schema cannot be one.
func Statement(name, schema string, plain bool) (string, error) {
	if err := checkText("schema", schema, 63); err != nil {
		return "", err
	}
	names := statementNames()
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("pglock: no statement %q; one of: %s", name, strings.Join(names, ", "))
	}
	body, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return "", err
	}
	var header strings.Builder
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header.WriteString(line)
	}
	return header.String() + render(name, string(body), schema, plain) + ";\n", nil
}

// statementNames are the files without their ending, sorted.
func statementNames() []string {
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		panic(err) // Embedded: a missing folder does not compile.
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(file.Name(), path.Ext(file.Name()))
	}
	return names
}
