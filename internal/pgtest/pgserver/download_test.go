package pgserver

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repository serves this machine's binaries in the form that embedded-postgres downloads: an archive in a zip file.
// Installations made for another place find their libraries and shared files by absolute paths.
func repository(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	_, c := local(t, Options{})
	for _, tool := range []string{"tar", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, err.Error())
		}
	}
	archive := filepath.Join(t.TempDir(), "postgres.txz")
	// pg_ctl is what the library looks for.
	pack := exec.Command("tar", "-c", "-f", archive, "-I", "xz -0", "-C", filepath.Dir(c.binaries.dir), "-h", "--exclude", "bitcode",
		"bin/initdb", "bin/postgres", "bin/pg_ctl", "lib")
	output, err := pack.CombinedOutput()
	require.NoError(t, err, string(output))
	content, err := os.ReadFile(archive)
	require.NoError(t, err)
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	entry, err := z.Create("postgres-any.txz")
	require.NoError(t, err)
	_, err = entry.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	sum := sha256.Sum256(jar.Bytes())

	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestDownload_FetchesOnceAndStarts(t *testing.T) {
	url, requests := repository(t)
	root, err := os.MkdirTemp("", "pgserver-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	temp := filepath.Join(root, "temp")
	require.NoError(t, os.Mkdir(temp, 0o777))
	require.NoError(t, os.Chmod(temp, 0o777))
	require.NoError(t, os.Chmod(root, 0o755))
	t.Setenv("TMPDIR", temp)

	// Root's home is closed to the account that the server runs as, so this one is, too.
	d := download{cache: filepath.Join(root, "closed", "cache"), repository: url}
	require.NoError(t, os.Mkdir(filepath.Join(root, "closed"), 0o700))
	for range 2 {
		var told []string
		server, err := d.start(t.Context(), Options{Progress: func(message string) { told = append(told, message) }})
		require.NoError(t, err)
		require.Contains(t, server.Source(), "downloaded")
		require.NoError(t, connect(t, server.DSN()).Ping(t.Context()))
		require.NoError(t, server.Restart())
		require.NoError(t, server.Close())
		require.LessOrEqual(t, len(told), 1)
	}
	require.EqualValues(t, 2, requests.Load(), "archive and sum, once")

	for folder, want := range map[string]int{temp: 0, d.cache: 1} {
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, left, want, folder)
	}
}

func TestDownload_FailureSaysWhyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	d := download{cache: t.TempDir(), repository: server.URL}
	_, err := d.start(t.Context(), Options{})
	require.ErrorContains(t, err, "no version found")
	left, err := os.ReadDir(d.cache)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDownload_ObeysTheContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	d := download{cache: t.TempDir(), repository: server.URL}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := d.start(ctx, Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release)
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(d.cache)
		return err == nil && len(left) == 0
	}, 10*time.Second, 10*time.Millisecond, "the folder goes with the request")
}
