package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs_EveryExportedNameHasAComment covers the packages for users and internal ones alike. The comment starts
// with the name, as readers of go doc expect, a type's after an article if it likes. For a field, and for a constant
// in a group, a comment behind it will do; in an internal package they may do without, and so may variables.
func TestDocs_EveryExportedNameHasAComment(t *testing.T) {
	checked := map[string]int{}
	var wrong []string
	for _, f := range goFiles(t) {
		if isTest(f.path) {
			continue
		}
		names, missing := undocumented(t, f, slices.Contains(packages, folder(f.path)))
		checked[top(f.path)] += names
		wrong = append(wrong, missing...)
	}
	require.Empty(t, wrong)
	for _, name := range packages {
		require.Greater(t, checked[name], 2, "exported names seen in %s", name)
	}
}

// TestDocs_EveryPackageHasAComment: one file of each package says what it is for.
func TestDocs_EveryPackageHasAComment(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if isTest(f.path) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		has := parsed.Doc != nil && len(strings.Fields(parsed.Doc.Text())) > 5
		documented[folder(f.path)] = documented[folder(f.path)] || has
	}
	require.Greater(t, len(documented), 4)
	for name, has := range documented {
		require.True(t, has, "no file of %s has a package comment", name)
	}
}

func TestDocs_CheckFindsEachMistake(t *testing.T) {
	const source = `package p

// Another Wrong word comes first.
type Wrong struct {
	Bare int
	// Fine says what it is.
	Fine int
	Beside int // milliseconds
	hidden int
}

// A Right type is documented.
type Right int

func (Right) Method() {}

// Stop ends it.
func (Right) Stop() {}

func (hidden) Method() {}

type hidden struct{}

type Work interface {
	Run()
	// Stop ends it.
	Stop()
}

var ErrBare error

// These say when.
var (
	ErrGrouped error
	// ErrSaid is returned when it was said.
	ErrSaid error
)

// Max and Min are the limits.
const Max, Min = 2, 1

// The kinds.
const (
	KindBeside Right = 1 // beside
	KindBare   Right = 2
)

// Newer is another word.
func New() {}
`
	names, missing := undocumented(t, file{"p/p.go", source}, true)
	require.Equal(t, []string{
		"p/p.go:4: Wrong",
		"p/p.go:5: Wrong.Bare",
		"p/p.go:15: Right.Method",
		"p/p.go:24: Work",
		"p/p.go:25: Work.Run",
		"p/p.go:30: ErrBare",
		"p/p.go:34: ErrGrouped",
		"p/p.go:45: KindBare",
		"p/p.go:49: New",
	}, missing)
	require.Equal(t, 18, names)

	_, missing = undocumented(t, file{"p/p.go", source}, false)
	require.Equal(t, []string{"p/p.go:4: Wrong", "p/p.go:15: Right.Method", "p/p.go:24: Work", "p/p.go:49: New"}, missing)
}

// undocumented returns how many exported names a file declares and the place of each that has no comment
// starting with it; members, constants and variables only if all counts.
func undocumented(t *testing.T, f file, all bool) (names int, missing []string) {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.text, parser.ParseComments)
	require.NoError(t, err)
	check := func(ok bool, name string, pos token.Pos) {
		names++
		if !ok {
			missing = append(missing, fmt.Sprintf("%s:%d: %s", f.path, fset.Position(pos).Line, name))
		}
	}
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name, public := methodName(decl)
			if public {
				check(startsWith(decl.Name.Name, decl.Doc), name, decl.Pos())
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if !spec.Name.IsExported() {
						continue
					}
					check(startsWith(`((A|An|The) )?`+spec.Name.Name, spec.Doc, lone(decl)), spec.Name.Name, spec.Pos())
					if !all {
						continue
					}
					for _, member := range members(spec) {
						for _, name := range member.Names {
							if name.IsExported() {
								check(member.Doc != nil || member.Comment != nil, spec.Name.Name+"."+name.Name, name.Pos())
							}
						}
					}
				case *ast.ValueSpec:
					if !all {
						continue
					}
					for _, name := range spec.Names {
						if name.IsExported() {
							beside := decl.Tok == token.CONST && spec.Comment != nil
							check(beside || mentions(name.Name, spec.Doc, lone(decl)), name.Name, name.Pos())
						}
					}
				}
			}
		}
	}
	return names, missing
}

// methodName is Type.Method for a method; public tells whether a user can see it.
func methodName(decl *ast.FuncDecl) (name string, public bool) {
	if decl.Recv == nil {
		return decl.Name.Name, decl.Name.IsExported()
	}
	receiver := decl.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	of, ok := receiver.(*ast.Ident)
	if !ok {
		return decl.Name.Name, decl.Name.IsExported()
	}
	return of.Name + "." + decl.Name.Name, of.IsExported() && decl.Name.IsExported()
}

// lone is the comment of a declaration without parentheses; in a group each name has its own.
func lone(decl *ast.GenDecl) *ast.CommentGroup {
	if decl.Lparen.IsValid() {
		return nil
	}
	return decl.Doc
}

func members(spec *ast.TypeSpec) []*ast.Field {
	switch body := spec.Type.(type) {
	case *ast.StructType:
		return body.Fields.List
	case *ast.InterfaceType:
		return body.Methods.List
	}
	return nil
}

func startsWith(name string, comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool {
		return c != nil && regexp.MustCompile(`^`+name+`\b`).MatchString(c.Text())
	})
}

// mentions is for several names in one declaration: the first sentence has them all.
func mentions(name string, comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool {
		if c == nil {
			return false
		}
		first, _, _ := strings.Cut(c.Text(), ".")
		return regexp.MustCompile(`\b` + name + `\b`).MatchString(first)
	})
}
