package history_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
)

func TestRead_GivesBackWhatWriteWrote(t *testing.T) {
	var file bytes.Buffer
	events := good().events
	require.NoError(t, history.Write(&file, events))
	require.Equal(t, len(events), strings.Count(file.String(), "\n"))
	read, err := history.Read(&file)
	require.NoError(t, err)
	require.Equal(t, events, read)
}

// TestRead_LeavesOutATornLastLine: a process that is killed as it writes loses that line, wherever it is torn.
func TestRead_LeavesOutATornLastLine(t *testing.T) {
	const whole, last = `{"kind":"note","text":"one"}` + "\n", `{"kind":"trusts","name":"a","from":1,"to":2}`
	for length := range len(last) {
		events, err := history.Read(strings.NewReader(whole + last[:length]))
		require.NoError(t, err)
		require.Len(t, events, 1, last[:length])
	}
	events, err := history.Read(strings.NewReader(whole + last))
	require.NoError(t, err)
	require.Len(t, events, 2, "only the end of the line is missing")
}

// TestRead_RefusesWhatIsNoEvent: a judge that overlooks lines finds nothing.
func TestRead_RefusesWhatIsNoEvent(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"kind":"leese","seq":1}`:           "is not known",
		`{"kind":"lease","seq":1}`:           "neither old nor new",
		`{"kind":"write"}`:                   "seq is 0",
		`{"kind":"trusts","seq":1}`:          "seq is 1",
		`{"kind":"trusts","from":2,"to":1}`:  "from 2 to 1",
		`{"kind":"fence","seq":1,"tokem":1}`: "unknown field",
		`{"kind":"fence","seq":1,"token":1`:  "unexpected EOF",
		`{"kind":"note"}{"kind":"note"}`:     "more than one",
	} {
		_, err := history.Read(strings.NewReader(text + "\n" + `{"kind":"note"}` + "\n"))
		require.ErrorContains(t, err, wrong, text)
		require.ErrorContains(t, err, "event 1", text)
	}
}

// TestReadFiles_MakesOneHistory: what one process was told contradicts what another was told, so neither file says it alone.
func TestReadFiles_MakesOneHistory(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	one := write("1", `{"kind":"answer","name":"a","token":2,"client":"c1","from":10,"to":20}`+"\n"+`{"kind":"tru`)
	two := write("2", `{"kind":"answer","name":"a","token":1,"client":"c2","from":30,"to":40}`+"\n")
	for _, files := range [][]string{{one, two}, {two, one}} {
		events, err := history.ReadFiles(files...)
		require.NoError(t, err)
		require.Len(t, events, 2)
		require.Contains(t, noOrder(events), `"c2" is granted token 1`)
	}
	_, err := history.ReadFiles(one, write("3", "{}\n"))
	require.ErrorContains(t, err, "3: history: event 1")
	_, err = history.ReadFiles(filepath.Join(folder, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
