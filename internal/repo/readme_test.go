package repo

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A snippet of Go in a document has a marker in the line before its fence:
//
//	<!-- example: path/to/file.go -->         the whole file
//	<!-- example: path/to/file.go#Name -->    the declaration of Name, without its comment
//	<!-- example: path/to/file.go#Name{} -->  the body of the function Name, without its "Output:" comment
//
// The file is one that go vet ./... compiles. A command that CI runs has a marker of its own,
// <!-- ci: run --> or <!-- ci: test -->, before a fence with one line.
var (
	exampleMarker = regexp.MustCompile(`^<!-- example: ([^#\s]+)(?:#(\w+)(\{\})?)? -->$`)
	commandMarker = regexp.MustCompile(`^<!-- ci: (\w+) -->$`)
	outputComment = regexp.MustCompile(`(?i)^//\s*(unordered )?output:`)
)

// TestReadme_GoSnippetsAreCompiledExamples: what a reader copies is code that the tests compile.
func TestReadme_GoSnippetsAreCompiledExamples(t *testing.T) {
	dir, compared := root(t), 0
	for _, f := range documents(t) {
		n, wrong := differing(f, func(name string) (string, error) { return compiled(dir, name) })
		require.Empty(t, wrong)
		if f.path == "README.md" {
			compared = n
		}
	}
	require.Positive(t, compared, "README.md shows how the library is used")
}

// TestReadme_CommandsForCI: .ci/run takes the two commands from README.md, so that they cannot drift apart.
func TestReadme_CommandsForCI(t *testing.T) {
	commands := map[string][]string{}
	for _, b := range blocks(read(t, "README.md")) {
		if marker := commandMarker.FindStringSubmatch(b.before); marker != nil {
			require.Equal(t, "sh", b.language, b.before)
			commands[marker[1]] = append(commands[marker[1]], strings.TrimSpace(b.text))
		}
	}
	require.Len(t, commands, 2)
	for _, name := range []string{"run", "test"} {
		require.Len(t, commands[name], 1, "one block for <!-- ci: %s -->", name)
		require.NotContains(t, commands[name][0], "\n", "one command in <!-- ci: %s -->", name)
		require.NotEmpty(t, commands[name][0])
	}
}

// TestReadme_LinksLeadSomewhere: every relative link of a document, and every path in README's table of where to
// look, exists; so does the heading behind a #.
func TestReadme_LinksLeadSomewhere(t *testing.T) {
	dir, links := root(t), 0
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	}
	for _, f := range documents(t) {
		n, wrong := dangling(f, exists, func(name string) string { return read(t, name) })
		require.Empty(t, wrong)
		links += n
	}
	require.Greater(t, links, 10, "links seen")
	n, wrong := nowhere(read(t, "README.md"), exists)
	require.Empty(t, wrong)
	require.Greater(t, n, 5, `README.md has a section "Where to look" that names files`)
}

func TestReadme_SnippetCheckFindsEachMistake(t *testing.T) {
	const source = "package p\n\n// Say speaks.\nfunc Say() {\n\tprintln(1) // one\n\tif true {\n\t\tprintln(2)\n\t}\n\n\t// Output:\n\t// 1\n}\n\ntype T int\n"
	load := func(name string) (string, error) {
		if name != "p/p.go" {
			return "", fmt.Errorf("%s is not compiled", name)
		}
		return source, nil
	}
	snippet := func(marker, code string) file {
		return file{"README.md", "# Title\n\n" + marker + "\n```go\n" + code + "```\n"}
	}
	for name, right := range map[string]file{
		"a body, other indentation": snippet("<!-- example: p/p.go#Say{} -->", "println(1) // one\nif true {\n    println(2)\n}\n"),
		"a type":                    snippet("<!-- example: p/p.go#T -->", "type T int\n"),
		"a function":                snippet("<!-- example: p/p.go#Say -->", source[strings.Index(source, "func"):strings.Index(source, "\n\ntype")]+"\n"),
		"a file":                    snippet("<!-- example: p/p.go -->", source),
	} {
		n, wrong := differing(right, load)
		require.Empty(t, wrong, name)
		require.Equal(t, 1, n, name)
	}
	for name, bad := range map[string]file{
		"another line":    snippet("<!-- example: p/p.go#Say{} -->", "println(1) // one\n"),
		"another comment": snippet("<!-- example: p/p.go#Say{} -->", "println(1) // two\nif true {\n\tprintln(2)\n}\n"),
		"no such name":    snippet("<!-- example: p/p.go#Nobody -->", "type T int\n"),
		"no such file":    snippet("<!-- example: p/q.go#T -->", "type T int\n"),
		"no marker":       snippet("Like this:", "type T int\n"),
		"a body of none":  snippet("<!-- example: p/p.go#T{} -->", "type T int\n"),
		"not Go":          snippet("<!-- example: p/p.go#T -->", "type type\n"),
	} {
		_, wrong := differing(bad, load)
		require.Len(t, wrong, 1, name)
	}
}

func TestReadme_LinkCheckFindsEachMistake(t *testing.T) {
	exists := func(name string) bool { return name == "a.md" || name == "docs/b.md" || name == "pglock" }
	text := func(name string) string { return "# One Heading: `it`\n" }
	n, wrong := dangling(file{"docs/b.md", "## Here\n[a](../a.md) [b](b.md#one-heading-it) [c](#here) [d](https://example.com) `[e](f)`\n```\n[g](h)\n```\n"}, exists, text)
	require.Empty(t, wrong)
	require.Equal(t, 3, n)
	_, wrong = dangling(file{"a.md", "[a](b.md) [b](docs/b.md#two) [c](#none)\n"}, exists, text)
	require.Len(t, wrong, 3)

	n, wrong = nowhere("## Where to look\n| q | `pglock/` and [x](a.md) | `go test ./...` |\n| r | `pglock/gone.go`, `New` |\n## Next\n`no/where.go`\n", exists)
	require.Equal(t, []string{"pglock/gone.go"}, wrong)
	require.Equal(t, 3, n)
}

// documents are the Markdown files that describe the project.
func documents(t *testing.T) []file {
	t.Helper()
	var found []file
	for _, f := range tree(t) {
		if path.Ext(f.path) == ".md" {
			found = append(found, f)
		}
	}
	require.Greater(t, len(found), 3)
	return found
}

// block is a fenced block of Markdown with the last line that is not blank before it.
type block struct {
	line     int
	before   string
	language string
	text     string
}

func blocks(text string) []block {
	var found []block
	var open *block
	before := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case open != nil && strings.TrimSpace(line) == "```":
			found = append(found, *open)
			open, before = nil, ""
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "```"):
			open = &block{line: number, before: before, language: strings.TrimPrefix(line, "```")}
		case strings.TrimSpace(line) != "":
			before = line
		}
	}
	return found
}

// differing compares each snippet of Go with the code that its marker names.
func differing(f file, load func(name string) (string, error)) (compared int, wrong []string) {
	for _, b := range blocks(f.text) {
		if b.language != "go" {
			continue
		}
		compared++
		if err := compare(b, load); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s:%d: %v", f.path, b.line, err))
		}
	}
	return compared, wrong
}

func compare(b block, load func(name string) (string, error)) error {
	marker := exampleMarker.FindStringSubmatch(b.before)
	if marker == nil {
		return fmt.Errorf("no <!-- example: path/to/file.go#Name --> before this snippet of Go")
	}
	source, err := load(marker[1])
	if err != nil {
		return err
	}
	code := source
	if marker[2] != "" {
		if code, err = declaration(source, marker[2], marker[3] != ""); err != nil {
			return fmt.Errorf("%s: %w", marker[1], err)
		}
	}
	want, err := normal(code)
	if err != nil {
		return fmt.Errorf("%s: %w", marker[1], err)
	}
	got, err := normal(b.text)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the snippet differs from %s, which has\n%s", b.before, want)
	}
	return nil
}

// normal formats code, so that indentation does not count.
func normal(code string) (string, error) {
	lines := strings.Split(strings.TrimRight(code, " \t\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	formatted, err := format.Source([]byte(strings.Trim(strings.Join(lines, "\n"), "\n")))
	return string(formatted), err
}

// declaration cuts what is called name, or only its body, out of a file.
func declaration(source, name string, body bool) (string, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	offset := func(pos token.Pos) int { return fset.Position(pos).Offset }
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil || decl.Name.Name != name {
				continue
			}
			if !body {
				return source[offset(decl.Pos()):offset(decl.End())], nil
			}
			end := decl.Body.Rbrace
			for _, comment := range parsed.Comments {
				if comment.Pos() > decl.Body.Lbrace && comment.End() < end && outputComment.MatchString(comment.List[0].Text) {
					end = comment.Pos()
				}
			}
			return source[offset(decl.Body.Lbrace)+1 : offset(end)], nil
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.Name == name && !body {
					return source[offset(decl.Pos()):offset(decl.End())], nil
				}
			}
		}
	}
	return "", fmt.Errorf("no such declaration: %s", name)
}

// compiled reads a file that belongs to a package of this module on this platform.
func compiled(dir, name string) (string, error) {
	folder, base := filepath.Split(filepath.Join(dir, filepath.FromSlash(name)))
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if part == "testdata" || part != "." && strings.ContainsAny(part[:1], "._") {
			return "", fmt.Errorf("%s is in a folder that ./... leaves out", name)
		}
	}
	if ok, err := build.Default.MatchFile(folder, base); err != nil || !ok {
		return "", fmt.Errorf("%s is not compiled here: %w", name, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, base))
	return string(text), err
}

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code     = regexp.MustCompile("`[^`]+`")
	notSlug  = regexp.MustCompile(`[^a-z0-9 _-]`)
	pathLike = regexp.MustCompile(`^[\w.-]+(/[\w.-]*)+$|^[\w.-]+\.(go|md|sql|sh|yml|txt)$`)
)

// dangling returns how many relative links a document has and those that lead nowhere.
func dangling(f file, exists func(name string) bool, text func(name string) string) (links int, wrong []string) {
	for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(f.text), ""), -1) {
		if strings.Contains(match[1], ":") {
			continue // another site
		}
		links++
		target, anchor, _ := strings.Cut(match[1], "#")
		content := f.text
		if target != "" {
			target = path.Join(path.Dir(f.path), target)
			if !exists(target) {
				wrong = append(wrong, f.path+" links to "+match[1])
				continue
			}
			content = ""
			if path.Ext(target) == ".md" && anchor != "" {
				content = text(target)
			}
		}
		if anchor != "" && content != "" && !headings(content)[anchor] {
			wrong = append(wrong, f.path+" links to "+match[1])
		}
	}
	return links, wrong
}

// nowhere returns how many paths the section "Where to look" has, as links or in backquotes, and those that do
// not exist.
func nowhere(readme string, exists func(name string) bool) (paths int, wrong []string) {
	inside := false
	for line := range strings.Lines(prose(readme)) {
		if strings.HasPrefix(line, "#") {
			inside = strings.Contains(strings.ToLower(line), "where to look")
			continue
		}
		if !inside {
			continue
		}
		var named []string
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			if target, _, _ := strings.Cut(match[1], "#"); target != "" && !strings.Contains(target, ":") {
				named = append(named, target)
			}
		}
		for _, quoted := range code.FindAllString(line, -1) {
			if word := strings.Trim(quoted, "`"); pathLike.MatchString(word) {
				named = append(named, word)
			}
		}
		for _, name := range named {
			paths++
			if !exists(path.Clean(name)) {
				wrong = append(wrong, name)
			}
		}
	}
	return paths, wrong
}

// prose is a document without its fenced blocks.
func prose(text string) string {
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// headings are the anchors of a document, as they are made of its headings.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	for line := range strings.Lines(prose(text)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			slug := notSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors[strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	return anchors
}
