package migrations

import (
	"fmt"
	"io/fs"
	"strings"
)

// Script returns the SQL that [Up] would run on an empty schema, as one transaction for psql or another tool. Schema "" is
// [DefaultSchema]; the other fields of the Options are not used. It may run again, and beside Up: it takes the same lock, and leaves a
// newer version as it is. Unlike Up it does not compare tables that are there already.
func Script(options Options) (string, error) {
	options, err := options.withDefaults()
	if err != nil {
		return "", err
	}
	var script strings.Builder
	fmt.Fprintf(&script, scriptHead,
		Newest,
		commentText(options.Schema),
		literal(prepareBlock(options.Schema)),
		identifier(options.Schema))
	fmt.Fprintf(&script, "CREATE TABLE IF NOT EXISTS %s (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);\n",
		bookkeepingTable)
	files, err := fs.Glob(FS, "*.up.sql") // in order of their names, which is the order of their numbers
	if err != nil {
		return "", fmt.Errorf("migrations: %w", err)
	}
	for _, name := range files {
		body, err := fs.ReadFile(FS, name)
		if err != nil {
			return "", fmt.Errorf("migrations: %w", err)
		}
		fmt.Fprintf(&script, "\n-- %s\n%s", name, body)
	}
	fmt.Fprintf(&script, scriptTail, bookkeepingTable, Newest, bookkeepingTable, Newest, bookkeepingTable)
	return script.String(), nil
}

const scriptHead = `-- Leasehold, version %d, schema %s.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL client_encoding = 'UTF8';
SET LOCAL client_min_messages = 'warning';

-- The lock excludes others that run this script or "pglock migrate up". The schema is looked for first, because CREATE SCHEMA
-- IF NOT EXISTS asks for the privilege to create even if it is there.
DO %s;
SET LOCAL search_path = %s, pg_temp;

`

const scriptTail = `
-- Not if a newer version is recorded.
DELETE FROM %s
WHERE version <= %d;
INSERT INTO %s (version, dirty)
SELECT %d, false
WHERE NOT EXISTS (SELECT FROM %s);

COMMIT;
`

// prepareBlock is PL/pgSQL. It becomes a quoted string, not a dollar-quoted one: a schema may have $$ in its name.
func prepareBlock(schema string) string {
	return fmt.Sprintf(`BEGIN
    PERFORM pg_advisory_xact_lock(%d::bigint);
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s) THEN
        CREATE SCHEMA %s;
    END IF;
END`, ownKey(schema), literal(schema), identifier(schema))
}

// commentText keeps a name with a line break inside its comment.
func commentText(name string) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(name)
}
