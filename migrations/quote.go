package migrations

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

func identifier(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// literal quotes a string so that it reads the same whatever standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

func literals(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = literal(s)
	}
	return strings.Join(quoted, ", ")
}
