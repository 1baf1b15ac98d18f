package repo

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// TestGuarantees_NameTestsThatExist: docs/guarantees.md claims nothing that no test shows. A cell without a test says
// that something is a limit, or is left to the server.
func TestGuarantees_NameTestsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			for _, match := range testFunc.FindAllStringSubmatch(f.text, -1) {
				known[match[1]] = true
			}
		}
	}
	rows, cells, bare := 0, 0, 0
	for line := range strings.Lines(read(t, "docs/guarantees.md")) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(columns) != 4 || strings.Contains(line, "---") || strings.Contains(line, "| lease |") {
			continue
		}
		rows++
		for _, cell := range columns[1:] {
			cells++
			names := testName.FindAllStringSubmatch(cell, -1)
			if len(names) == 0 {
				bare++
			}
			for _, name := range names {
				require.True(t, known[name[1]], "docs/guarantees.md names %s, which does not exist", name[1])
			}
		}
	}
	require.Greater(t, rows, 25)
	require.Less(t, bare, cells/8, "cells that no test shows")
}
