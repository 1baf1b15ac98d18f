package licences

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLicences_OfAllModulesArePermissive looks at every module that is compiled in, for a user, a test or an example.
func TestLicences_OfAllModulesArePermissive(t *testing.T) {
	modules, err := Modules("../..")
	require.NoError(t, err)
	require.Greater(t, len(modules), 20)
	pgx := false
	for _, m := range modules {
		pgx = pgx || m.Path == "github.com/jackc/pgx/v5"
		names, err := Licences(m)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if len(Refused(names)) > 0 {
			t.Errorf("%s is under %v: see internal/licences", m.Path, names)
		}
		t.Logf("%s %s: %s", m.Path, m.Version, strings.Join(names, ", "))
	}
	require.True(t, pgx, "the list has what is known to be there")
}

func TestLicences_EachKindIsTold(t *testing.T) {
	mit := "MIT License\n\nCopyright (c) 2026 Somebody\n\n" + mitText
	for name, test := range map[string]struct {
		files   map[string]string
		names   []string
		refused []string
		says    string
	}{
		"one that is permissive":   {files: map[string]string{"LICENSE": mit}, names: []string{"MIT"}},
		"another name of file":     {files: map[string]string{"LICENCE.md": mit}, names: []string{"MIT"}},
		"none":                     {files: map[string]string{"README": mit}, says: "no file with a licence"},
		"words of one's own":       {files: map[string]string{"LICENSE": "Do with it what you like, but never on a Monday."}, says: "known licence"},
		"one with a condition":     {files: map[string]string{"LICENSE": mit + strings.Repeat("\nThe Software shall be used for Good, and every Friday a cake is to be sent to the author, with candles.", 6)}, says: "known licence"},
		"one that asks for more":   {files: map[string]string{"LICENSE": gplNotice}, refused: []string{"GPL-3.0"}},
		"two, one asks for more":   {files: map[string]string{"LICENSE": mit, "COPYING": gplNotice}, refused: []string{"GPL-3.0"}},
		"one file with no licence": {files: map[string]string{"LICENSE": mit, "COPYING": "see LICENSE"}, says: "known licence"},
	} {
		dir := t.TempDir()
		for file, text := range test.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		names, err := Licences(Module{Path: "example.com/m", Dir: dir})
		if test.says != "" {
			require.ErrorContains(t, err, test.says, name)
			continue
		}
		require.NoError(t, err, name)
		if test.names != nil {
			require.Equal(t, test.names, names, name)
		}
		refused := Refused(names)
		require.Len(t, refused, len(test.refused), "%s: %v", name, names)
		for i := range refused {
			require.True(t, strings.HasPrefix(refused[i], test.refused[i]), refused[i])
		}
	}
}

const mitText = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
(the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

const gplNotice = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see <https://www.gnu.org/licenses/>.
`
