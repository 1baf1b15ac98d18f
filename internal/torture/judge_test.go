package torture_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture"
)

// buildJudge builds the program that judges histories.
func buildJudge(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "judge")
	const source = "github.com/leasehold-go/leasehold/internal/history/judge"
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// judged fails the test if the report has anything that may not be. The judge is a program of its own, which knows nothing
// but the history. What it was given is kept then, with its time line.
func judged(t *testing.T, judge string, report *torture.Report) {
	t.Helper()
	dir := t.TempDir()
	lines, page := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "history.html")
	file, err := os.Create(lines)
	require.NoError(t, err)
	require.NoError(t, history.Write(file, report.Events))
	require.NoError(t, file.Close())
	out, err := exec.CommandContext(t.Context(), judge, "-html", page, lines).CombinedOutput()
	found := history.Check(report.Events)
	for _, v := range found {
		t.Error(v)
	}
	if err != nil || len(found) > 0 {
		t.Errorf("the judge: %v\n%.4000s", err, out)
	}
	for _, f := range report.Failures {
		t.Error("a client: " + f)
	}
	for _, s := range report.Strange {
		t.Error("an error of the server that no fault accounts for: " + s)
	}
	if t.Failed() {
		keep(t, report.Seed, lines, page)
	}
}

// keep copies files to where they outlive the test, beside each other.
func keep(t *testing.T, seed uint64, files ...string) {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("leasehold-torture-%d-", seed))
	require.NoError(t, err)
	for _, name := range files {
		from, err := os.Open(name)
		require.NoError(t, err)
		to, err := os.Create(filepath.Join(dir, filepath.Base(name)))
		require.NoError(t, err)
		_, err = io.Copy(to, from)
		require.NoError(t, err)
		require.NoError(t, from.Close())
		require.NoError(t, to.Close())
		t.Logf("kept: %s", to.Name())
	}
	t.Logf("judge it again: go run ./internal/history/judge %s", filepath.Join(dir, "history.jsonl"))
}
