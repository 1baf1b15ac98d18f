package migrations

import (
	"context"
	"fmt"
)

// Status is what [Version] found.
type Status struct {
	// Version of the tables. 0: none are installed.
	Version int

	// Dirty: another tool was in the middle of Version, or still is. Up heals it.
	Dirty bool
}

// Current reports whether this library finds everything it needs. A newer database is fine.
func (s Status) Current() bool { return s.Version >= Newest && !s.Dirty }

// Version returns the version of the tables in a schema. It writes nothing and waits for nobody; a missing schema has version
// 0. The Options' To is not used.
func Version(ctx context.Context, db DB, options Options) (Status, error) {
	options, err := options.withDefaults()
	if err != nil {
		return Status{}, err
	}
	m, err := newMigrator(db, options)
	if err != nil {
		return Status{}, err
	}
	defer m.conns.close()
	at, _, err := m.read(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("migrations: version: schema %q: %w", options.Schema, explain(err))
	}
	return Status{Version: max(at.version, 0), Dirty: at.dirty}, nil
}
