package notebook_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/torture/clock"
	"github.com/leasehold-go/leasehold/internal/torture/notebook"
)

// TestNotebook_IsAHistoryAtEveryMoment: nothing waits in a buffer, and lines of several goroutines do not mix.
func TestNotebook_IsAHistoryAtEveryMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c1.1.jsonl")
	n, err := notebook.Open(path, "c1.1")
	require.NoError(t, err)
	defer n.Close()
	read := func() []history.Event {
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		events, err := history.Read(file)
		require.NoError(t, err)
		return events
	}

	from := clock.Now()
	n.Note(from, history.Event{Kind: history.KindTrusts, Name: "a", Token: 1, Left: 5})
	events := read()
	require.Len(t, events, 1)
	require.Equal(t, "c1.1", events[0].Client)
	require.NotEmpty(t, events[0].Process)
	require.Equal(t, from, events[0].From)
	require.GreaterOrEqual(t, events[0].To, from)

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				n.Remark("%s", "a remark that is rather long, so that halves of it would show")
			}
		})
	}
	all.Wait()
	require.Len(t, read(), 401)
}
