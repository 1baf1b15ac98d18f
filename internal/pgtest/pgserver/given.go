package pgserver

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// given is a server that somebody else runs: it is used and left alone.
type given struct {
	variable string
	address  string
}

var errGiven = errors.New("the server belongs to somebody else; ask for a private one")

// findGiven takes the DSN from the environment.
func findGiven(ctx context.Context) (*given, error) {
	for _, variable := range []string{envTestDSN, envDatabaseURL} {
		address := os.Getenv(variable)
		if address == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return nil, &askedError{variable, err}
		}
		return &given{variable: variable, address: address}, conn.Close(ctx)
	}
	return nil, nil
}

func (g *given) dsn() string                      { return g.address }
func (g *given) source() string                   { return g.variable }
func (g *given) start(context.Context) error      { return errGiven }
func (g *given) stop(context.Context, Mode) error { return errGiven }
func (g *given) kill() error                      { return errGiven }
func (g *given) pause() error                     { return errGiven }
func (g *given) resume() error                    { return errGiven }
func (g *given) remove() error                    { return nil }
