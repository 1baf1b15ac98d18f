package migrations

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// DefaultSchema is the schema of the tables when [Options] names none.
const DefaultSchema = "public"

// Options says where and how far to migrate. The zero value is ready to use.
type Options struct {
	// Schema of the tables, as it is, without quotes. Up creates it if it is missing. Default: [DefaultSchema].
	Schema string

	// To is the version to stop at. Default 0: Up goes to the newest version, Down removes everything. Up never goes
	// down and Down never goes up.
	To int

	// Logger gets one line for each migration applied, and one when another process is waited for. Default: discard.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkSchema(o.Schema); err != nil {
		return o, fmt.Errorf("migrations: schema %q: %w", o.Schema, err)
	}
	if o.To < 0 {
		return o, fmt.Errorf("migrations: version %d: must not be negative", o.To)
	}
	return o, nil
}

// checkSchema refuses the names that PostgreSQL takes and then reads as something else.
func checkSchema(name string) error {
	switch {
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return errors.New("must be UTF-8 without a zero byte")
	case len(name) > 63:
		return fmt.Errorf("%d bytes long; PostgreSQL would cut it at 63", len(name))
	case name == "$user":
		return errors.New("means the current user in search_path, even in quotes")
	case strings.HasPrefix(name, "pg_"), name == "information_schema":
		return errors.New("belongs to PostgreSQL")
	}
	return nil
}
