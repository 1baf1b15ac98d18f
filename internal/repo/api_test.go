package repo

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestAPI_GoldenFilesListThePublicAPI compares api/<package>.txt with what the package exports, one line a name.
// A changed line is a change for users: it belongs in CHANGELOG.md too.
func TestAPI_GoldenFilesListThePublicAPI(t *testing.T) {
	tree(t) // the packages are compiled by another process: this tells the test cache about their files
	loaded := load(t, packages)
	for _, name := range packages {
		t.Run(name, func(t *testing.T) {
			got := listing(loaded[name])
			require.NotEmpty(t, got, "nothing is exported")
			golden := filepath.Join(root(t), "api", name+".txt")
			text := strings.Join(got, "\n") + "\n"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "make api writes it")
			require.Equal(t, string(want), text, "the public API changed: make api, and say so in CHANGELOG.md")
		})
	}
	entries, err := os.ReadDir(filepath.Join(root(t), "api"))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".txt"))
	}
	require.Equal(t, packages, names, "api/ holds one file a public package and nothing else")
}

func TestAPI_ListingHasALineForEveryExportedName(t *testing.T) {
	const source = `package p

type Token int64
func (t Token) String() string { return "" }
func (t *Token) Set(v int64) {}
func (t Token) hidden() {}

type Base struct{}
func (Base) Promoted() {}

type Lease struct {
	Base
	Name string ` + "`json:\"name\"`" + `
	secret int
}

type Work interface{ Run(n int) error; quiet() }
type Same = Token
type hidden struct{ Field int }

const Max Token = 3
const Plain = "x"
var ErrLost error
var ErrLast = ErrLost

func New[T any](x T, more ...string) (lease *Lease, err error) { return nil, nil }
func unexported() {}
`
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "p.go", source, 0)
	require.NoError(t, err)
	checked, err := new(types.Config).Check("p", fset, []*ast.File{parsed}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		`const Max Token = 3`,
		`const Plain untyped string = "x"`,
		`func (*Token) Set(v int64)`,
		`func (Base) Promoted()`,
		`func (Lease) Promoted()`,
		`func (Token) String() string`,
		`func New[T any](x T, more ...string) (lease *Lease, err error)`,
		`type Base struct`,
		`type Lease struct`,
		`type Lease struct, Base (embedded)`,
		`type Lease struct, Name string`,
		`type Lease struct, with unexported fields`,
		`type Same = Token`,
		`type Token int64`,
		`type Work interface`,
		`type Work interface, Run(n int) error`,
		`type Work interface, with unexported methods`,
		`var ErrLast error`,
		`var ErrLost error`,
	}, listing(checked))
}

// load compiles the packages and reads their export data, which is exact and needs no type check of the
// dependencies' sources.
func load(t *testing.T, names []string) map[string]*types.Package {
	t.Helper()
	exports := map[string]string{}
	for line := range strings.Lines(goList(t, append([]string{"-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, local(names)...)...)) {
		importPath, export, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[importPath] = export
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(importPath string) (io.ReadCloser, error) {
		return os.Open(exports[importPath])
	})
	loaded := map[string]*types.Package{}
	for _, name := range names {
		pkg, err := imports.Import(module + "/" + name)
		require.NoError(t, err)
		loaded[name] = pkg
	}
	return loaded
}

// goList runs go list at the module's root.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = root(t)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}

// local makes package patterns of names relative to the module.
func local(names []string) []string {
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = "./" + name
	}
	return patterns
}

// listing is the exported API of a package: sorted, a line for each name, field and method.
func listing(pkg *types.Package) []string {
	qualify := func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return other.Name()
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch object := pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			add("const %s %s = %s", name, types.TypeString(object.Type(), qualify), object.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, types.TypeString(object.Type(), qualify))
		case *types.Func:
			add("func %s%s", name, signature(object, qualify))
		case *types.TypeName:
			lines = append(lines, typeLines(object, qualify)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func typeLines(object *types.TypeName, qualify types.Qualifier) []string {
	name := object.Name()
	if object.IsAlias() {
		target := types.Unalias(object.Type())
		return []string{fmt.Sprintf("type %s = %s", name, types.TypeString(target, qualify))}
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s struct", name)
		hidden := false
		for field := range under.Fields() {
			switch {
			case !field.Exported():
				hidden = true
			case field.Embedded():
				add("type %s struct, %s (embedded)", name, types.TypeString(field.Type(), qualify))
			default:
				add("type %s struct, %s %s", name, field.Name(), types.TypeString(field.Type(), qualify))
			}
		}
		if hidden {
			add("type %s struct, with unexported fields", name)
		}
	case *types.Interface:
		add("type %s interface", name)
		hidden := false
		for method := range under.Methods() {
			if !method.Exported() {
				hidden = true
				continue
			}
			add("type %s interface, %s%s", name, method.Name(), signature(method, qualify))
		}
		if hidden {
			add("type %s interface, with unexported methods", name)
		}
		return lines
	default:
		add("type %s %s", name, types.TypeString(under, qualify))
	}
	value := types.NewMethodSet(object.Type())
	for selection := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
		method := selection.Obj().(*types.Func)
		if !method.Exported() {
			continue
		}
		receiver := "*" + name
		if value.Lookup(method.Pkg(), method.Name()) != nil {
			receiver = name
		}
		add("func (%s) %s%s", receiver, method.Name(), signature(method, qualify))
	}
	return lines
}

// signature is a function's type without the word func.
func signature(function *types.Func, qualify types.Qualifier) string {
	return strings.TrimPrefix(types.TypeString(function.Type(), qualify), "func")
}
