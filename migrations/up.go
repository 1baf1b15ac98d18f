package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"
)

// Up applies the migrations that are missing, each in a transaction of its own, and compares the tables with what the
// library expects. Many processes may call it at once. It waits for another process until ctx ends, outside any
// transaction.
//
// A database that is newer than this library is left as it is, without an error: in a rolling upgrade old instances start
// beside new ones. A version left dirty by golang-migrate's own command line is applied again.
//
// It needs CREATE on the schema, and CREATE on the database only if the schema is missing. If nothing is to be done it needs no more
// than SELECT on the bookkeeping table.
//
// After an error each migration is either applied and recorded, or neither; Up may be called again.
func Up(ctx context.Context, db DB, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if options.To > Newest {
		return fmt.Errorf("migrations: up to version %d: the newest is %d", options.To, Newest)
	}
	if options.To == 0 {
		options.To = Newest
	}
	m, err := newMigrator(db, options)
	if err != nil {
		return err
	}
	defer m.conns.close()
	if err := m.up(ctx, options.To); err != nil {
		return fmt.Errorf("migrations: up: schema %q: %w", options.Schema, explain(err))
	}
	return nil
}

func (m *migrator) up(ctx context.Context, target int) error {
	for {
		at, tables, err := m.read(ctx)
		if err != nil {
			return err
		}
		if at.version > Newest {
			m.logger.InfoContext(ctx, "the database is newer than this library", "version", at.String(), "newest_known", Newest)
			return tables.check(m.schema, at.version, true)
		}
		if at.version >= target && !at.dirty {
			return tables.check(m.schema, at.version, true)
		}
		if at.dirty {
			m.logger.WarnContext(ctx, "version was left dirty by another tool, or that tool is still running: "+
				"applying it again when the lock is free", "version", at.version)
		}
		if err := m.step(ctx, at, +1); err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
}

// Down removes migrations, the newest first, each in a transaction of its own. It leaves the schema and an empty
// bookkeeping table.
//
// It drops tokens. Below version 2 the fences are gone, so nothing refuses a stale holder; after Down to 0 and Up, tokens
// start from 1 again. Stop all writers first, and do not start those that held a lease before.
//
// After an error each migration is either removed and recorded, or neither; Down may be called again.
func Down(ctx context.Context, db DB, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	m, err := newMigrator(db, options)
	if err != nil {
		return err
	}
	defer m.conns.close()
	if options.To == 0 {
		options.To = database.NilVersion
	}
	if err := m.down(ctx, options.To); err != nil {
		return fmt.Errorf("migrations: down: schema %q: %w", options.Schema, explain(err))
	}
	return nil
}

func (m *migrator) down(ctx context.Context, target int) error {
	for {
		at, _, err := m.read(ctx)
		if err != nil {
			return err
		}
		switch {
		case at.version > Newest:
			return fmt.Errorf("version %s is newer than this library, which ends at %d; use the library that installed it",
				at, Newest)
		case at.dirty:
			// Dirty 2 is either a 2 that was being made or a 3 that was being removed. All the way up makes it known.
			if err := m.up(ctx, Newest); err != nil {
				return err
			}
			continue
		case at.version <= target:
			return nil
		}
		if err := m.step(ctx, at, -1); err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
}
