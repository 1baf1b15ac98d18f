package pgserver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// alone takes away what the environment offers.
func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{envTestDSN, envDatabaseURL, envBinaries, envSource} {
		t.Setenv(name, "")
	}
}

func TestStart_TakesTheDSNsInOrder(t *testing.T) {
	alone(t)
	first, _ := local(t, Options{})
	second, _ := local(t, Options{})
	t.Setenv(envDatabaseURL, second.DSN())
	server, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	require.Equal(t, second.DSN(), server.DSN())
	require.Equal(t, "DATABASE_URL", server.Source())

	t.Setenv(envTestDSN, first.DSN())
	server, err = Start(t.Context(), Options{})
	require.NoError(t, err)
	require.Equal(t, first.DSN(), server.DSN())
	require.Equal(t, "LEASEHOLD_TEST_DSN", server.Source())

	// Somebody else's server is left alone.
	for _, change := range []func() error{
		func() error { return server.Stop(Fast) }, server.Start, server.Restart, server.Kill, server.Pause, server.Resume,
	} {
		require.ErrorIs(t, change(), errGiven)
	}
	require.NoError(t, server.Close())
	require.NoError(t, connect(t, first.DSN()).Ping(t.Context()))

	private, err := Start(t.Context(), Options{Private: true})
	require.NoError(t, err)
	require.NotEqual(t, first.DSN(), private.DSN())
	require.NoError(t, private.Close())
}

func TestStart_WhatWasAskedForIsNotCoveredUp(t *testing.T) {
	alone(t)
	t.Setenv(envDatabaseURL, "postgres://user:secret@127.0.0.1:1/none?connect_timeout=2")
	_, err := Start(t.Context(), Options{})
	require.ErrorContains(t, err, "DATABASE_URL")
	require.NotContains(t, err.Error(), "secret")

	alone(t)
	t.Setenv(envBinaries, t.TempDir())
	_, err = Start(t.Context(), Options{})
	require.ErrorContains(t, err, envBinaries)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestStart_ErrorNamesAllThatWasTried(t *testing.T) {
	t.Parallel()
	nothing := func(name string) error { return errors.New("no " + name) }
	err := noServer([]error{nothing("binaries"), nothing("engine"), nothing("network")})
	for _, want := range []string{"no binaries", "no engine", "no network", envTestDSN, envDatabaseURL, envBinaries, "Docker"} {
		require.ErrorContains(t, err, want)
	}
}

func TestStart_UsesBinariesThatOthersCannotReach(t *testing.T) {
	alone(t)
	_, c := local(t, Options{})
	// A folder closed to all but its owner, as t.TempDir's are.
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, c.binaries.copy(closed, account{}))
	require.NoError(t, os.Chmod(closed, 0o700))
	t.Setenv(envBinaries, filepath.Join(closed, "bin"))
	server, err := Start(t.Context(), Options{Private: true})
	require.NoError(t, err)
	require.Contains(t, server.Source(), "PostgreSQL ")
	require.NoError(t, connect(t, server.DSN()).Ping(t.Context()))
	require.NoError(t, server.Close())
}

func TestPlaces_NewestFirst(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/9.6/bin": 6, "/usr/lib/postgresql/17/bin": 17, "/opt/homebrew/opt/postgresql@16/bin": 16, "/usr/local/pgsql/bin": 0,
	} {
		require.Equal(t, want, versionIn(dir), dir)
	}
	for _, dir := range places() {
		require.False(t, strings.HasSuffix(dir, "/"))
	}
}
