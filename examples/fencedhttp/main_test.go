//go:build unix

package fencedhttp_test

import (
	"os"
	"testing"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// asService makes the test binary a service that a test can kill: its value says which store.
const asService = "FENCEDHTTP_TEST_SERVICE"

func TestMain(m *testing.M) {
	if store := os.Getenv(asService); store != "" {
		serve(store)
		return
	}
	pgtest.Main(m)
}
