package fencing

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// A Guard is what is known of a guarded table. It is a value, safe for concurrent use.
type Guard struct {
	// Table is the name with its schema, quoted where SQL needs it.
	Table string `json:"table"`
	// Rows is true if each row has a fence of its own, by [Fence.GuardRowsTx].
	Rows bool `json:"rows"`
	// Problem says why the guard does not do what it should: its trigger is disabled, or a partition was added without
	// one. Empty if nothing is wrong.
	Problem string `json:"problem"`
}

// GuardTx puts a table under the fence, with its partitions and inheritance children. From the commit of tx on, INSERT, UPDATE,
// DELETE, MERGE, COPY and TRUNCATE are refused by the server, unless the transaction has passed the fence by one of the
// checks of this package, with a token that is current at that moment. The fence then stays locked until the transaction ends.
//
// The table is written as in SQL, so that "Billing".invoices and billing.invoices differ, and is looked up in search_path
// if it has no schema. It needs migration 4, the privilege TRIGGER on each table, and EXECUTE on pglock_check_guard() if
// another role than this one installed the tables. CREATE TRIGGER waits for open transactions that have written to the table, and makes
// later ones wait: set lock_timeout. Guarding again is fine, and needed after a partition was added.
//
// A refused write is a *pgconn.PgError of the caller's own statement, with Code LH001 (the transaction has not passed the
// fence), LH002 (stale) or LH003 (no such fence, or not raised to the token), and the transaction is aborted. See docs/guards.md,
// which also lists what a guard does not stop: it is for mistakes, not against a role that may disable triggers.
//
// After an error of the server tx is aborted and nothing is guarded; after bad input nothing was sent.
func (f Fence) GuardTx(ctx context.Context, tx pgx.Tx, table string) error {
	return f.guard(ctx, onPgx(tx), table)
}

// GuardSQLTx is [Fence.GuardTx] for database/sql.
func (f Fence) GuardSQLTx(ctx context.Context, tx *sql.Tx, table string) error {
	return f.guard(ctx, onSQL(tx), table)
}

// GuardRowsTx puts each row of a table under a fence of its own, for one lock a customer: the name of the fence is that of f,
// followed by the text of the key column, as in customer/42 for Fence{Name: "customer/"}. From the commit of tx on, INSERT, UPDATE and
// DELETE of a row are refused unless the transaction has passed the fence of that row, under the same rules and with the
// same SQLSTATEs as in [Fence.GuardTx]; an UPDATE that changes the key needs both. TRUNCATE is refused always.
//
// The token column, a bigint, keeps the token of the row's last write. The guard sets it, whatever the statement says. A row that
// was written with a higher token is refused (LH002), also when its fence was lost, or restored from an older copy.
//
// It needs migration 5, and else the same as [Fence.GuardTx]. It is fired for each row, so that a write of many rows costs more: see
// docs/guards.md. Guarding again replaces the guard.
func (f Fence) GuardRowsTx(ctx context.Context, tx pgx.Tx, table, keyColumn, tokenColumn string) error {
	return f.guardRows(ctx, onPgx(tx), table, keyColumn, tokenColumn)
}

// GuardRowsSQLTx is [Fence.GuardRowsTx] for database/sql.
func (f Fence) GuardRowsSQLTx(ctx context.Context, tx *sql.Tx, table, keyColumn, tokenColumn string) error {
	return f.guardRows(ctx, onSQL(tx), table, keyColumn, tokenColumn)
}

// UnguardTx takes the guard off a table, its partitions and its children, of both kinds. It waits for open transactions as
// [Fence.GuardTx] does. It is an error, with nothing changed, if the table is not guarded by this fence. It needs the table's owner.
func (f Fence) UnguardTx(ctx context.Context, tx pgx.Tx, table string) error {
	return f.unguard(ctx, onPgx(tx), table)
}

// UnguardSQLTx is [Fence.UnguardTx] for database/sql.
func (f Fence) UnguardSQLTx(ctx context.Context, tx *sql.Tx, table string) error {
	return f.unguard(ctx, onSQL(tx), table)
}

// GuardsTx lists the tables that are guarded by the fence, by name, and what is wrong with each guard. Tables that ought to be
// guarded and are not are for the caller to miss. It reads the views pglock_guards and pglock_row_guards, which list those of
// all fences, and needs SELECT on both.
func (f Fence) GuardsTx(ctx context.Context, tx pgx.Tx) ([]Guard, error) {
	return f.guards(ctx, onPgx(tx))
}

// GuardsSQLTx is [Fence.GuardsTx] for database/sql.
func (f Fence) GuardsSQLTx(ctx context.Context, tx *sql.Tx) ([]Guard, error) {
	return f.guards(ctx, onSQL(tx))
}

func (f Fence) guard(ctx context.Context, q query, table string) error {
	if err := f.validateTable(q, opGuard, table); err != nil {
		return err
	}
	var done bool
	if err := q(ctx, f.statement(opGuard, guardSQL), f.Name, table).Scan(&done); err != nil {
		return f.explain(opGuard, err)
	}
	return nil
}

func (f Fence) guardRows(ctx context.Context, q query, table, keyColumn, tokenColumn string) error {
	if err := f.validateTable(q, opGuardRows, table); err != nil {
		return err
	}
	for _, column := range []string{keyColumn, tokenColumn} {
		if column == "" || len(column) > maxSchema || strings.ContainsRune(column, 0) || !utf8.ValidString(column) {
			return fmt.Errorf("fencing: %s %q: %q cannot be the name of a column", opGuardRows, f.Name, column)
		}
	}
	var done bool
	if err := q(ctx, f.statement(opGuardRows, guardRowsSQL), f.Name, table, keyColumn, tokenColumn).Scan(&done); err != nil {
		return f.explain(opGuardRows, err)
	}
	return nil
}

func (f Fence) unguard(ctx context.Context, q query, table string) error {
	if err := f.validateTable(q, opUnguard, table); err != nil {
		return err
	}
	var done bool
	err := q(ctx, f.statement(opUnguard, unguardSQL), f.Name, table).Scan(&done)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("fencing: %s %q: table %s is not guarded by it", opUnguard, f.Name, table)
	}
	if err != nil {
		return f.explain(opUnguard, err)
	}
	return nil
}

func (f Fence) guards(ctx context.Context, q query) ([]Guard, error) {
	// Any token will do: there is none.
	if err := f.validate(q, opGuards, 1); err != nil {
		return nil, err
	}
	var list string
	if err := q(ctx, f.statement(opGuards, guardsSQL), f.Name).Scan(&list); err != nil {
		return nil, f.explain(opGuards, err)
	}
	var guards []Guard
	if err := json.Unmarshal([]byte(list), &guards); err != nil {
		return nil, fmt.Errorf("fencing: %s %q: %w", opGuards, f.Name, err)
	}
	return guards, nil
}

func (f Fence) validateTable(q query, o op, table string) error {
	if err := f.validate(q, o, 1); err != nil {
		return err
	}
	switch {
	case table == "":
		return fmt.Errorf("fencing: %s %q: no table given", o, f.Name)
	case strings.ContainsRune(table, 0), !utf8.ValidString(table):
		return fmt.Errorf("fencing: %s %q: the name of the table is not UTF-8 without NUL", o, f.Name)
	}
	return nil
}
