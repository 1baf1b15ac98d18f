package migrations

import (
	"context"
	"fmt"
	"strconv"

	"github.com/golang-migrate/migrate/v4/database"
)

// bookkeepingTable has the layout of golang-migrate's schema_migrations under a name of its own: that one belongs to the
// application.
const bookkeepingTable = "pglock_schema_migrations"

// state is what the bookkeeping table says. An empty or missing table is version -1, as in golang-migrate.
type state struct {
	version int
	dirty   bool // a stock run was in the middle of this version, or still is
}

// readState reads the version. tables tells whether the bookkeeping table is there: asking a missing one would be an
// error, and one in the server's log.
func (tx transaction) readState(ctx context.Context, tables tables) (state, error) {
	none := state{version: database.NilVersion}
	if _, ok := tables[bookkeepingTable]; !ok {
		return none, nil
	}
	rows, err := tx.rows(ctx, "SELECT version, dirty FROM "+identifier(tx.schema, bookkeepingTable))
	if err != nil {
		return none, fmt.Errorf("read version: %w", err)
	}
	switch len(rows) {
	case 0:
		return none, nil
	case 1:
		version, err := strconv.Atoi(rows[0][0])
		return state{version: version, dirty: rows[0][1] == "t"}, err
	}
	return none, fmt.Errorf("table %s has %d rows, want one; delete the wrong ones",
		identifier(tx.schema, bookkeepingTable), len(rows))
}

// prepare makes the schema and the bookkeeping table if they are missing, and asks for neither privilege if they are not.
func (tx transaction) prepare(ctx context.Context) error {
	rows, err := tx.rows(ctx, "SELECT FROM pg_namespace WHERE nspname = "+literal(tx.schema))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := tx.exec(ctx, "CREATE SCHEMA "+identifier(tx.schema)); err != nil {
			return fmt.Errorf("create schema: %w", err)
		}
	}
	tables, err := tx.readTables(ctx)
	if err != nil {
		return err
	}
	if _, ok := tables[bookkeepingTable]; ok {
		return nil
	}
	return tx.exec(ctx, createBookkeeping(tx.schema))
}

func createBookkeeping(schema string) string {
	return "CREATE TABLE " + identifier(schema, bookkeepingTable) +
		" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)"
}

// writeVersion records a clean version. DELETE, not TRUNCATE as the stock drivers do: TRUNCATE locks readers out, and
// shows an empty table to a reader with an older snapshot.
func (tx transaction) writeVersion(ctx context.Context, version int) error {
	table := identifier(tx.schema, bookkeepingTable)
	if err := tx.exec(ctx, "DELETE FROM "+table); err != nil {
		return fmt.Errorf("write version: %w", err)
	}
	if version == database.NilVersion {
		return nil
	}
	if err := tx.exec(ctx, fmt.Sprintf("INSERT INTO %s (version, dirty) VALUES (%d, false)", table, version)); err != nil {
		return fmt.Errorf("write version: %w", err)
	}
	return nil
}
