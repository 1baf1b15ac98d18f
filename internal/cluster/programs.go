//go:build linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// programs are what a cluster consists of.
type programs struct {
	patroni, etcd string
	postgres      string // a folder
}

// findPrograms takes Debian's own PostgreSQL: the small builds that other tests can be pointed at have no pg_rewind, with
// which a former leader joins again.
func findPrograms() (programs, error) {
	var p programs
	var err error
	if p.patroni, err = exec.LookPath("patroni"); err != nil {
		return p, err
	}
	if p.etcd, err = exec.LookPath("etcd"); err != nil {
		return p, err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_rewind") // The only error is a bad pattern.
	found = slices.DeleteFunc(found, func(path string) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres"))
		return err != nil
	})
	if len(found) == 0 {
		return p, fmt.Errorf("no PostgreSQL server with pg_rewind below /usr/lib/postgresql")
	}
	p.postgres = filepath.Dir(found[len(found)-1])
	return p, nil
}
