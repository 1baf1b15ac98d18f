package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// download is the last resort: embedded-postgres fetches binaries, once for a machine.
type download struct {
	cache      string // a folder that stays
	repository string // "": the library's own
}

func startDownload(ctx context.Context, options Options) (*Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("no place to keep it: %w", err)
	}
	d := download{cache: filepath.Join(cache, "leasehold")}
	return d.start(ctx, options)
}

func (d download) start(ctx context.Context, options Options) (*Server, error) {
	b, err := d.binaries(ctx, options)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(ctx, b, options)
	if err != nil {
		return nil, err
	}
	server := newServer(c)
	server.source = "PostgreSQL " + b.version + " downloaded"
	return server, nil
}

// binaries returns what is in the cache, or fetches it.
func (d download) binaries(ctx context.Context, options Options) (binaries, error) {
	version := embeddedpostgres.V17
	target := filepath.Join(d.cache, fmt.Sprintf("postgresql-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	if b, err := inspect(ctx, filepath.Join(target, "bin")); err == nil {
		return b, nil
	}
	options.progress(fmt.Sprintf("downloading PostgreSQL %s, once", version))
	if err := os.MkdirAll(d.cache, 0o755); err != nil {
		return binaries{}, err
	}
	// Beside the target, so that what is complete can be put in place at once, whoever else is doing the same.
	staging, err := newFolderIn(d.cache, account{})
	if err != nil {
		return binaries{}, err
	}
	// The library's request cannot be cancelled. If ctx ends first the goroutine ends with the request, and the folder
	// with it or with this process.
	fetched := make(chan error, 1)
	go func() {
		err := d.fetch(version, staging.join("postgresql"))
		if err == nil {
			err = os.Rename(staging.join("postgresql"), target)
		}
		fetched <- errors.Join(err, staging.remove())
	}()
	select {
	case err = <-fetched:
	case <-ctx.Done():
		return binaries{}, context.Cause(ctx)
	}
	b, inspectErr := inspect(ctx, filepath.Join(target, "bin"))
	if inspectErr == nil {
		return b, nil // perhaps another process was faster
	}
	if err == nil {
		err = inspectErr
	}
	return b, err
}

// fetch makes the library download and unpack, and nothing else. It has no call for that: Start goes on with initdb
// and pg_ctl, which are not started in a way that leaves nothing behind, and not at all as root. So it gets a data
// folder that cannot exist; it stops there, after unpacking.
func (d download) fetch(version embeddedpostgres.PostgresVersion, target string) error {
	port, err := freePort() // it is only looked at
	if err != nil {
		return err
	}
	config := embeddedpostgres.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Dir(target)).
		RuntimePath(filepath.Join(filepath.Dir(target), "runtime")).
		BinariesPath(target).
		DataPath(filepath.Join(os.DevNull, "none")).
		Logger(io.Discard)
	if d.repository != "" {
		config = config.BinaryRepositoryURL(d.repository)
	}
	library := embeddedpostgres.NewDatabase(config)
	err = library.Start()
	removeLibraryLog()
	runtime.KeepAlive(library) // it holds the log open, by which that is found
	http.DefaultClient.CloseIdleConnections()
	if _, missing := os.Stat(filepath.Join(target, "bin", "postgres")); missing != nil {
		return err
	}
	return nil
}

// removeLibraryLog removes the empty log that the library leaves in the temporary folder, found among our own open
// files. Where there is no /proc it stays.
func removeLibraryLog() {
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	for _, descriptor := range descriptors {
		path, err := os.Readlink(descriptor)
		if err == nil && strings.HasPrefix(filepath.Base(path), "embedded_postgres_log") {
			_ = os.Remove(path)
		}
	}
}
