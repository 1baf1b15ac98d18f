package migrations

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// shape is what a table must look like for the statements of this library. Every up file says IF NOT EXISTS, so that it
// may run again; that also accepts a table of somebody else, which is why the shape is compared.
type shape struct {
	table   string
	since   int // the migration that creates it; 0 for the bookkeeping table
	columns []column
}

// column is the expected form of a column. key: it alone is unique, as ON CONFLICT needs.
type column struct {
	name, dataType string
	nullable, key  bool
}

// shapes lists the tables of the newest version.
var shapes = []shape{
	{table: bookkeepingTable, since: 0, columns: []column{
		{name: "version", dataType: "bigint", key: true},
		{name: "dirty", dataType: "boolean"},
	}},
	{table: "pglock_leases", since: 1, columns: []column{
		{name: "name", dataType: "text", key: true},
		{name: "token", dataType: "bigint"},
		{name: "holder", dataType: "uuid"},
		{name: "label", dataType: "text"},
		{name: "metadata", dataType: "jsonb"},
		{name: "acquired_at", dataType: "timestamp with time zone"},
		{name: "renewed_at", dataType: "timestamp with time zone"},
		{name: "expires_at", dataType: "timestamp with time zone", nullable: true},
	}},
	{table: "job_fences", since: 2, columns: []column{
		{name: "name", dataType: "text", key: true},
		{name: "token", dataType: "bigint"},
		{name: "raised_at", dataType: "timestamp with time zone"},
	}},
	{table: "pglock_epochs", since: 3, columns: []column{
		{name: "system_identifier", dataType: "bigint", key: true},
		{name: "base", dataType: "bigint"},
		{name: "entered_at", dataType: "timestamp with time zone"},
	}},
}

// tables is what the schema has under the names of our tables.
type tables map[string]*table

type table struct {
	kind, persistence string // pg_class.relkind, relpersistence
	columns           []found
}

type found struct {
	column
	hasDefault bool
}

func (tx transaction) readTables(ctx context.Context) (tables, error) {
	names := make([]string, len(shapes))
	for i, shape := range shapes {
		names[i] = shape.table
	}
	rows, err := tx.rows(ctx, `
SELECT
    c.relname,
    c.relkind,
    c.relpersistence,
    a.attname,
    format_type(a.atttypid, a.atttypmod),
    NOT a.attnotnull,
    a.atthasdef OR a.attidentity <> '',
    EXISTS (
        SELECT
        FROM pg_index AS i
        WHERE i.indrelid = c.oid
            AND i.indisunique
            AND i.indimmediate
            AND i.indisvalid
            AND i.indpred IS NULL
            AND i.indnkeyatts = 1
            AND i.indkey[0] = a.attnum
    )
FROM pg_class AS c
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid
    AND a.attnum > 0
    AND NOT a.attisdropped
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = `+literal(tx.schema)+`)
    AND c.relname IN (`+literals(names)+`)
ORDER BY c.relname, a.attnum`)
	if err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	tables := tables{}
	for _, row := range rows {
		if tables[row[0]] == nil {
			tables[row[0]] = &table{kind: row[1], persistence: row[2]}
		}
		tables[row[0]].columns = append(tables[row[0]].columns, found{
			column:     column{name: row[3], dataType: row[4], nullable: row[5] == "t", key: row[7] == "t"},
			hasDefault: row[6] == "t",
		})
	}
	return tables, nil
}

// check compares the tables that are there with the shapes of a version. A missing table is an error only if required.
func (t tables) check(schema string, version int, required bool) error {
	for _, shape := range shapes {
		table, ok := t[shape.table]
		switch {
		case shape.since > version:
		case !ok && required:
			return fmt.Errorf("table %s is missing, although version %d is recorded; restore it, or run "+
				"\"pglock migrate down -yes\" and \"pglock migrate up\" with all writers stopped",
				identifier(schema, shape.table), version)
		case ok:
			if faults := table.compare(shape, version); len(faults) > 0 {
				return fmt.Errorf("table %s is not ours, or was changed: %s; rename it or choose another schema",
					identifier(schema, shape.table), strings.Join(faults, ", "))
			}
		}
	}
	return nil
}

func (t *table) compare(shape shape, version int) (faults []string) {
	if t.kind != "r" {
		return []string{"it is no ordinary table"}
	}
	if t.persistence != "p" {
		// An unlogged table comes back empty after a crash.
		return []string{"it is not LOGGED"}
	}
	for _, want := range shape.columns {
		i := slices.IndexFunc(t.columns, func(f found) bool { return f.name == want.name })
		if i < 0 {
			faults = append(faults, fmt.Sprintf("column %s is missing", want.name))
			continue
		}
		faults = append(faults, t.columns[i].compare(want)...)
	}
	if version > Newest {
		return faults // a newer version of the library may have added columns
	}
	for _, have := range t.columns {
		known := slices.ContainsFunc(shape.columns, func(c column) bool { return c.name == have.name })
		if !known && !have.nullable && !have.hasDefault {
			faults = append(faults, fmt.Sprintf("column %s is NOT NULL without a default", have.name))
		}
	}
	return faults
}

func (f found) compare(want column) (faults []string) {
	if f.dataType != want.dataType {
		faults = append(faults, fmt.Sprintf("column %s is %s, want %s", f.name, f.dataType, want.dataType))
	}
	if f.nullable && !want.nullable {
		faults = append(faults, fmt.Sprintf("column %s may be NULL", f.name))
	}
	if !f.nullable && want.nullable {
		faults = append(faults, fmt.Sprintf("column %s is NOT NULL", f.name))
	}
	if want.key && !f.key {
		faults = append(faults, fmt.Sprintf("column %s is not unique", f.name))
	}
	return faults
}
