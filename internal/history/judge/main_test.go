package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudge_TakesItsFilesAsOneHistory(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	one := write("one", `{"kind":"refused","name":"a","token":2,"client":"c1","from":10,"to":20,"write":"w"}`+"\n")
	two := write("two", `{"kind":"write","name":"a","token":2,"seq":1,"write":"w"}`+"\n")
	page := filepath.Join(folder, "page.html")

	var said strings.Builder
	guilty, err := judge(&said, page, []string{one, two})
	require.NoError(t, err)
	require.True(t, guilty)
	require.Contains(t, said.String(), `what was confirmed is there: "a": "w" with token 2 was refused and is there`)
	require.FileExists(t, page)

	said.Reset()
	guilty, err = judge(&said, "", []string{two})
	require.NoError(t, err)
	require.False(t, guilty)
	require.Equal(t, "1 events, 0 violations\n", said.String())

	_, err = judge(&said, "", []string{filepath.Join(folder, "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = judge(&said, filepath.Join(folder, "none", "page.html"), []string{two})
	require.ErrorIs(t, err, os.ErrNotExist)
}
