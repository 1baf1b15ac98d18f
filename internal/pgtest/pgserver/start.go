package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// advice ends the error of a machine that has nothing to start a server from.
const advice = "do one of: set " + envTestDSN + " or " + envDatabaseURL + " to the DSN of a server; install PostgreSQL " +
	"(or name the folder of its binaries in " + envBinaries + "); start Docker; allow the download"

// Start returns a running server from the first source that works: LEASEHOLD_TEST_DSN, DATABASE_URL, binaries on the
// machine, Docker, a download. The error names everything that was tried and what to do. When ctx ends first, Start
// returns its error with nothing left behind; afterwards ctx has no meaning for the server.
//
// The caller calls [Server.Close].
func Start(ctx context.Context, options Options) (*Server, error) {
	var errs []error
	var asked *askedError
	for _, source := range sources(options) {
		if !wanted(source.kind) {
			continue
		}
		server, err := source.start(ctx, options)
		switch {
		case err == nil && server != nil:
			return server, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("pgserver: start: %w", context.Cause(ctx))
		case errors.As(err, &asked):
			return nil, fmt.Errorf("pgserver: start: %w", err)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", source.name, err))
		}
	}
	return nil, noServer(errs)
}

func noServer(tried []error) error {
	return fmt.Errorf("pgserver: no PostgreSQL server\n%w\n%s", errors.Join(tried...), advice)
}

// source is one way to come to a server. start returns nil and no error if the source is not there.
type source struct {
	kind  string
	name  string
	start func(context.Context, Options) (*Server, error)
}

// askedError is the failure of a source that somebody asked for by name. The next source must not cover it up: using
// another server than the one named would be a surprise.
type askedError struct {
	variable string
	err      error
}

func (e *askedError) Error() string { return e.variable + ": " + e.err.Error() }
func (e *askedError) Unwrap() error { return e.err }

func sources(options Options) []source {
	all := []source{
		{kind: kindBinaries, name: "binaries on this machine", start: startBinaries},
		{kind: kindDocker, name: "Docker", start: startDocker},
		{kind: kindDownload, name: "download", start: startDownload},
	}
	if options.Private {
		return all
	}
	dsn := source{kind: kindDSN, name: "DSN in the environment", start: startGiven}
	return append([]source{dsn}, all...)
}

func startGiven(ctx context.Context, _ Options) (*Server, error) {
	g, err := findGiven(ctx)
	if err != nil || g == nil {
		return nil, err
	}
	return newServer(g), nil
}

func startBinaries(ctx context.Context, options Options) (*Server, error) {
	all, err := findBinaries(ctx)
	if len(all) == 0 && err == nil {
		err = errors.New("none found")
	}
	errs := []error{err}
	for _, b := range all {
		c, err := newCluster(ctx, b, options)
		if err == nil {
			return newServer(c), nil
		}
		errs = append(errs, fmt.Errorf("PostgreSQL %s in %s: %w", b.version, b.dir, err))
	}
	err = errors.Join(errs...)
	if os.Getenv(envBinaries) != "" && err != nil {
		err = &askedError{envBinaries, err}
	}
	return nil, err
}
