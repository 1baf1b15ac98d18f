package licences

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Permissive are the licences, by their SPDX names, that ask for no more than to be named with the work. Any other kind, or a
// text that is none, needs a decision.
var Permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "0BSD", "PostgreSQL", "Public domain"}

// A Module is one that code of this module is compiled with, tests included.
type Module struct {
	Path, Version string
	Dir           string // where its files are
}

// Modules lists them, without this module and the standard library. dir is a folder of the module.
func Modules(dir string) ([]Module, error) {
	list := exec.Command("go", "list", "-deps", "-test", "-json=Module,Standard", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("licences: go list: %w", err)
	}
	var modules []Module
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			Module *struct {
				Main    bool
				Replace *Module
				Module
			}
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("licences: go list: %w", err)
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := p.Module.Module
		if p.Module.Replace != nil {
			m.Dir = p.Module.Replace.Dir
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(modules), nil
}

// read are files that no list knows, by their SHA-256, which somebody has read.
var read = map[string]string{
	// github.com/xi2/xz: "in the public domain … You can do whatever you want with these files."
	"5c640056d513f276d56635af7a0bed81cb7eac02a31b6e56d40c416557a8d8ce": "Public domain",
	// github.com/opencontainers/go-digest, LICENSE.docs: CC-BY-SA-4.0 for its documents, none of which is built in.
	"a1d1adec3ba691ef6e377a78bbe9e9e2501f2f4a1723d08857da1ac6564e4fed": "",
}

// texts are the names that licences have in the root of a module.
var texts = regexp.MustCompile(`(?i)^((UN)?LICEN[CS]ES?|COPYING)([-.][\w.-]+)?$`)

// Licences names the licences of a module, sorted: of each file, every one that is found in it.
//
// A module without such a file, or with one that is not for the most part the text of a licence, is an error.
func Licences(m Module) ([]string, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("licences: %s: %w", m.Path, err)
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() || filepath.Ext(entry.Name()) == ".go" || !texts.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("licences: %s: %w", m.Path, err)
		}
		if name, known := read[fmt.Sprintf("%x", sha256.Sum256(text))]; known {
			found = append(found, name)
			continue
		}
		names, err := classify(text)
		if err != nil {
			return nil, fmt.Errorf("licences: %s: %s: %w", m.Path, entry.Name(), err)
		}
		found = append(found, names...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("licences: %s has no file with a licence", m.Path)
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(name string) bool { return name == "" }), nil
}

// leastCovered is how much of a file, in percent, has to be the text of licences: the rest is names and years.
const leastCovered = 75

func classify(text []byte) ([]string, error) {
	cover := licensecheck.Scan(text)
	if cover.Percent < leastCovered {
		return nil, fmt.Errorf("only %.0f %% of it is the text of a known licence", cover.Percent)
	}
	var names []string
	for _, match := range cover.Match {
		names = append(names, match.ID)
	}
	return names, nil
}

// Refused are those of the given names that are not on the list.
func Refused(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(Permissive, name) })
}
