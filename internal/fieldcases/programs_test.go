package fieldcases_test

import (
	"context"
	"regexp"
	"sync"
	"testing"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// programs is where a server is started from that a test may stop: asked once, of a server that is closed at once.
var programs = sync.OnceValues(func() (string, error) {
	server, err := pgserver.Start(context.Background(), pgserver.Options{Private: true})
	if err != nil {
		return "", err
	}
	return server.Source(), server.Close()
})

// programsOf is the folder of the programs that private servers run from.
func programsOf(t testing.TB) string {
	t.Helper()
	source, err := programs()
	if err != nil {
		pgtest.Skip(t, "a server of its own is needed: "+err.Error())
	}
	found := regexp.MustCompile(` in (.+)$`).FindStringSubmatch(source)
	if found == nil {
		pgtest.Skip(t, "PostgreSQL's programs are needed, and the server is "+source)
	}
	return found[1]
}
