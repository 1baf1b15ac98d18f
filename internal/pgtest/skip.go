package pgtest

import (
	"os"
	"testing"
)

// Skip skips the test because the machine lacks something, and fails it if LEASEHOLD_NO_SKIP is 1: in CI, where a
// test that does not run would pass for one that holds.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_NO_SKIP") == "1" {
		t.Fatalf("LEASEHOLD_NO_SKIP is set, and this test cannot run: %s", reason)
	}
	t.Skip(reason)
}
