package pgserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// smallDisk is what a server whose WAL is on a disk of 24 MB needs to get by on it.
var smallDisk = map[string]string{"max_wal_size": "6MB", "min_wal_size": "2MB", "wal_keep_size": "0"}

// TestDisk_FullWAL: a server that cannot write its WAL stops working, in whatever way, and works again when there is room, with
// all that it had confirmed.
func TestDisk_FullWAL(t *testing.T) {
	t.Parallel()
	disk, err := NewDisk(24)
	if err != nil {
		skip(t, err.Error())
	}
	t.Cleanup(func() { require.NoError(t, disk.Close()) })
	wal, err := disk.WAL()
	require.NoError(t, err)
	server, c := local(t, Options{WAL: wal, WALSegment: 1, Settings: smallDisk})
	require.Equal(t, "1MB", ask[string](t, connect(t, server.DSN()), "SHOW wal_segment_size"))
	link, err := os.Readlink(filepath.Join(c.data(), "pg_wal"))
	require.NoError(t, err)
	require.Equal(t, wal, link)

	conn := connect(t, server.DSN())
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept (n int, filler text)")
	require.NoError(t, err)
	require.NoError(t, disk.Fill())
	kept := 0
	for err == nil {
		require.Less(t, kept, 1000, "it goes on for ever")
		require.NoError(t, disk.Fill(), "what a checkpoint freed")
		_, err = conn.Exec(t.Context(), "INSERT INTO kept SELECT 1, string_agg(md5(random()::text), '') FROM generate_series(1, 3000)")
		if err == nil {
			kept++
		}
	}
	t.Logf("after %d rows: %v", kept, err)

	require.NoError(t, disk.Free())
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "it does not come back")
		if server.Start() != nil { // It may be in the midst of its end.
			continue
		}
		again, err := pgx.Connect(t.Context(), server.DSN())
		if err != nil {
			continue
		}
		found := 0
		err = again.QueryRow(t.Context(), "INSERT INTO kept VALUES (1, '') RETURNING (SELECT count(*) FROM kept)").Scan(&found)
		require.NoError(t, again.Close(context.WithoutCancel(t.Context())))
		if err == nil {
			require.GreaterOrEqual(t, found, kept)
			break
		}
	}
}

// TestDisk_CloseTakesItAway.
func TestDisk_CloseTakesItAway(t *testing.T) {
	t.Parallel()
	disk, err := NewDisk(1)
	if err != nil {
		skip(t, err.Error())
	}
	require.NoError(t, disk.Fill())
	require.NoError(t, disk.Free())
	janitor := disk.janitor.process.pid()
	require.NoError(t, disk.Close())
	requireGone(t, disk.path, janitor)
}

// TestDisk_EndsWithItsProgram, however that ends.
func TestDisk_EndsWithItsProgram(t *testing.T) {
	t.Parallel()
	disk, err := NewDisk(1)
	if err != nil {
		skip(t, err.Error())
	}
	require.NoError(t, disk.Close())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+endOfDisk)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var told left
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, &told))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireGone(t, told.Folder, told.Janitor)
}

// endOfDisk has the test binary make a disk and wait to be killed.
const endOfDisk = "disk"

func childWithDisk() {
	disk, err := NewDisk(1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	_ = json.NewEncoder(os.Stdout).Encode(left{Folder: disk.path, Janitor: disk.janitor.process.pid()})
	time.Sleep(time.Minute)
}
