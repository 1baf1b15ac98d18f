package roles

import (
	"testing"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
