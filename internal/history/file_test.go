package history_test

import (
	"bytes"
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

// TestRead_RefusesWhatIsNoEvent: a judge that overlooks lines finds nothing.
func TestRead_RefusesWhatIsNoEvent(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"kind":"leese","seq":1}`:             "is not known",
		`{"kind":"lease","seq":1}`:             "neither old nor new",
		`{"kind":"write"}`:                     "seq is 0",
		`{"kind":"trusts","seq":1}`:            "seq is 1",
		`{"kind":"trusts","from":2,"to":1}`:    "from 2 to 1",
		`{"kind":"fence","seq":1,"tokem":1}`:   "unknown field",
		`{"kind":"fence","seq":1,"token":1`:    "unexpected EOF",
		`{"kind":"note"}{"kind":"note"} trunc`: "event 3",
	} {
		_, err := history.Read(strings.NewReader(text))
		require.ErrorContains(t, err, wrong, text)
	}
}
