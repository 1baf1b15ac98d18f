package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
)

// errMoved: the version is not the one the plan was made from. Another process migrated in between; plan again.
var errMoved = errors.New("the version changed meanwhile")

// driver is a golang-migrate database driver for one step of one plan.
//
// golang-migrate asks for the version, takes a lock, marks the version dirty, runs the file, marks it clean, and unlocks:
// five round trips that are five transactions in its own drivers, tied together by a lock of the session. Here Run is all
// of them in one transaction, so Lock has nothing to lock and a dirty mark is never written. What can happen between
// Version and Run is found by Run: it compares the version again under its lock.
type driver struct {
	ctx      context.Context //nolint:containedctx // the interface has no room for it; a driver lives as long as one call
	migrator *migrator

	seen state // what the plan was made from
	plan int   // the version that golang-migrate plans from; differs from seen when that is dirty

	target  int // what SetVersion(target, true) announced
	pending bool
}

// step lets golang-migrate plan and run one migration: 1 up, -1 down. One at a time, because golang-migrate leaves a
// goroutine behind for each file that it planned and did not come to.
func (m *migrator) step(ctx context.Context, seen state, direction int) error {
	d := &driver{ctx: ctx, migrator: m, seen: seen, plan: seen.version}
	if seen.dirty {
		previous, err := before(m.source, seen.version)
		if err != nil {
			return err
		}
		d.plan = previous
	}
	core, err := migrate.NewWithInstance("leasehold", m.source, "leasehold", d)
	if err != nil {
		return err
	}
	return core.Steps(direction)
}

// before returns the version below, -1 if there is none.
func before(source source.Driver, version int) (int, error) {
	if version < 0 {
		return database.NilVersion, nil
	}
	previous, err := source.Prev(uint(version))
	if errors.Is(err, os.ErrNotExist) {
		return database.NilVersion, nil
	}
	return int(previous), err
}

// Version returns what the plan is made from.
func (d *driver) Version() (version int, dirty bool, err error) { return d.plan, false, nil }

// Lock does nothing; see [driver].
func (d *driver) Lock() error { return nil }

// Unlock does nothing; see [driver].
func (d *driver) Unlock() error { return nil }

// SetVersion(v, true) is remembered for Run; SetVersion(v, false) finds it done, except for a version without a file in
// this direction, for which golang-migrate calls no Run.
func (d *driver) SetVersion(version int, dirty bool) error {
	if dirty {
		d.target, d.pending = version, true
		return nil
	}
	if !d.pending {
		return nil
	}
	return d.apply("")
}

// Run applies a file and records the announced version.
func (d *driver) Run(file io.Reader) error {
	body, err := io.ReadAll(file) // to the end in any case: a goroutine of golang-migrate writes to it
	if err != nil {
		return err
	}
	return d.apply(string(body))
}

func (d *driver) apply(body string) error {
	if !d.pending {
		return errors.New("no version was announced")
	}
	if err := d.migrator.apply(d.ctx, body, d.seen, d.target); err != nil {
		return err
	}
	d.pending = false
	return nil
}

// Drop is refused: it would drop everything in the schema.
func (d *driver) Drop() error { return errors.New("drop is not supported; use Down") }

// Open is refused: the driver is not registered under a URL scheme.
func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("use migrations.Up, or the stock driver pgx5")
}

// Close does nothing: the connections belong to the call, or to the caller.
func (d *driver) Close() error { return nil }

// direction tells an up step from a down step.
func (s state) direction(target int) string {
	if target > s.version || s.dirty && target == s.version {
		return "up"
	}
	return "down"
}

// String is for people, who count from 0: nothing installed.
func (s state) String() string {
	if s.dirty {
		return fmt.Sprintf("%d (dirty)", max(s.version, 0))
	}
	return fmt.Sprint(max(s.version, 0))
}
