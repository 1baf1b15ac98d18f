// Package bench has what the comparisons measure against.
package bench

import (
	_ "embed" // the file below
	"regexp"
	"strings"
)

//go:embed floor.sql
var floor string

// Floor is floor.sql as two statements for a driver: the grant ($1 name, $2 holder, a number as text) and the release.
func Floor() (grant, release string) {
	text := regexp.MustCompile(`(?m)^(\\|--).*\n`).ReplaceAllString(floor, "")
	text = strings.NewReplacer("(:name)", "$1", "(:holder)", "$2").Replace(text)
	statements := strings.SplitAfter(strings.TrimSpace(text), ";")
	return statements[0], statements[1]
}
