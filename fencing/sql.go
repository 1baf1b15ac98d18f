package fencing

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"strings"

	"github.com/jackc/pgx/v5"
)

// The statements, each with a header that says what its rows mean.
var (
	//go:embed sql/advance.sql
	advanceSQL string
	//go:embed sql/advance_strict.sql
	advanceStrictSQL string
	//go:embed sql/share.sql
	shareSQL string
	//go:embed sql/read.sql
	readSQL string
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/bound.sql
	boundSQL string
	//go:embed sql/guard.sql
	guardSQL string
	//go:embed sql/guard_rows.sql
	guardRowsSQL string
	//go:embed sql/unguard.sql
	unguardSQL string
	//go:embed sql/guards.sql
	guardsSQL string
)

// statement turns a file into the text that is sent: comments are left out, a short one says in pg_stat_activity whose
// statement it is, and the schema is put in, as an identifier and as a literal. The same fence always gives the same text, which keeps it in
// the statement caches of drivers and poolers.
func (f Fence) statement(o op, body string) string {
	var b strings.Builder
	b.WriteString("/* fencing " + string(o) + " */")
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString("\n" + strings.TrimRight(line, ";\n"))
		}
	}
	// In one pass: a schema may have such a name.
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{f.schema()}.Sanitize(),
		"{schema_text}", literal(f.schema()),
	).Replace(b.String())
}

// literal quotes a string so that it reads the same whatever standard_conforming_strings says.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// A row is what both drivers return for a statement of at most one row. Scan returns an error that matches
// [sql.ErrNoRows] if there was none; that of pgx does.
type row interface {
	Scan(dest ...any) error
}

// A query sends one statement in the caller's transaction, whichever driver that is of.
type query func(ctx context.Context, text string, args ...any) row

// onPgx is nil for a nil transaction.
func onPgx(tx pgx.Tx) query {
	if tx == nil {
		return nil
	}
	return func(ctx context.Context, text string, args ...any) row { return tx.QueryRow(ctx, text, args...) }
}

// onSQL is nil for a nil transaction.
func onSQL(tx *sql.Tx) query {
	if tx == nil {
		return nil
	}
	return func(ctx context.Context, text string, args ...any) row { return tx.QueryRowContext(ctx, text, args...) }
}
