package migrations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// migrator is one call of Up, Down or Version.
type migrator struct {
	conns  connections
	source source.Driver
	schema string
	logger *slog.Logger
}

func newMigrator(db DB, options Options) (*migrator, error) {
	if db == nil {
		return nil, errors.New("migrations: no database given; use URL or Pool")
	}
	files, err := iofs.New(FS, ".")
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	conns, err := db.open()
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	logger := options.Logger.With("schema", options.Schema)
	return &migrator{conns: conns, source: files, schema: options.Schema, logger: logger}, nil
}

// read returns the version and the tables, both of one moment, without a lock.
func (m *migrator) read(ctx context.Context) (at state, found tables, err error) {
	wait := waiting{migrator: m, pause: firstPause}
	for {
		err := transact(ctx, m.conns, m.schema, looking, func(tx transaction) error {
			at, found, err = tx.look(ctx)
			return err
		})
		if err == nil {
			return at, found, nil
		}
		if err := wait.sleep(ctx, err); err != nil {
			return at, nil, err
		}
	}
}

// look reads the version, the tables, and the version again until both are the same. One snapshot would not do: the stock
// drivers use TRUNCATE, after which an older snapshot shows an empty table, and that is version 0.
func (tx transaction) look(ctx context.Context) (at state, found tables, err error) {
	for first := true; ; first = false {
		if found, err = tx.readTables(ctx); err != nil {
			return at, nil, err
		}
		if err := found.check(tx.schema, 0, false); err != nil {
			return at, nil, err
		}
		before := at
		if at, err = tx.readState(ctx, found); err != nil {
			return at, nil, err
		}
		if !first && at == before {
			return at, found, nil
		}
	}
}

// apply runs one file and records its version, in one transaction under the lock. It waits for the lock, and for tables
// that are in use, between transactions, until ctx ends.
func (m *migrator) apply(ctx context.Context, body string, seen state, target int) error {
	started := time.Now()
	wait := waiting{migrator: m, pause: firstPause}
	for {
		err := transact(ctx, m.conns, m.schema, changing, func(tx transaction) error {
			return tx.migrate(ctx, body, seen, target, &wait)
		})
		if err == nil {
			m.logger.InfoContext(ctx, "migration applied", "direction", seen.direction(target),
				"from", seen.String(), "to", max(target, 0), "took", time.Since(started))
			return nil
		}
		if err := wait.sleep(ctx, err); err != nil {
			return err
		}
	}
}

// migrate is the whole of one migration: lock, compare, change, record.
func (tx transaction) migrate(ctx context.Context, body string, seen state, target int, wait *waiting) error {
	if err := tx.tryLock(ctx); err != nil {
		wait.look(ctx, tx, err)
		return err
	}
	if err := tx.prepare(ctx); err != nil {
		return err
	}
	found, err := tx.readTables(ctx)
	if err != nil {
		return err
	}
	at, err := tx.readState(ctx, found)
	if err != nil {
		return err
	}
	if at != seen {
		return errMoved
	}
	up := seen.direction(target) == "up"
	if up {
		// Before the file: its error about a foreign table would be about some column.
		if err := found.check(tx.schema, target, false); err != nil {
			return err
		}
	}
	if err := tx.exec(ctx, body); err != nil {
		return fmt.Errorf("version %d: %w", target, err)
	}
	if up {
		if found, err = tx.readTables(ctx); err != nil {
			return err
		}
		if err := found.check(tx.schema, target, true); err != nil {
			return err
		}
	}
	return tx.writeVersion(ctx, target)
}
