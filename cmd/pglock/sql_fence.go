package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-go/leasehold/fencing"
)

const (
	advanceHeader = `-- Advance: pass the fence in the writer's transaction, and raise it if the token is higher.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: passed, until this transaction ends. 0 rows: refused, or there is no such fence; the statement read tells
-- which. Then roll back: nothing of this transaction may stay.
`
	strictHeader = `-- Advance, strictly: as advance, but an equal token is refused too, so that one transaction a token commits.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: passed. 0 rows: refused, or there is no such fence. For a fence made by create, never that of a lease.
`
	shareHeader = `-- Share: pass the fence of a lease in the writer's transaction, beside other transactions of the same holder.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: passed only if its token is equal to $2, until this transaction ends. Another token, or 0 rows: refused.
`
	readHeader = `-- Read: the token of a fence, for the text of an error. No lock, and never a check.
--
--   $1 text  name
--
-- One row: the token. 0 rows: there is no such fence.
`
	createHeader = `-- Create: make a fence at 0, unless it is there. For a fence that no grant raises, as in another database.
--
--   $1 text  name
--
-- One row: made. 0 rows: it was there.
`
)

// sharePsql makes a fence below the token an error: psql has the row then, but it is no pass.
const sharePsql = `
SELECT 1 / (:'fence_token'::bigint = :'lease_token'::bigint)::int AS passed
\gset fence_`

// A check is one call into package fencing.
type check func(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error

// The token does not matter: it goes as a parameter.
func fenceAdvance(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error {
	return fence.AdvanceTx(ctx, tx, 1)
}

func fenceStrict(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error {
	return fence.AdvanceStrictTx(ctx, tx, 1)
}

func fenceShare(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error {
	return fence.ShareTx(ctx, tx, 1)
}

func fenceCreate(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error {
	return fence.CreateTx(ctx, tx)
}

// fenceRead is a refused check: it reads the fence for its error.
func fenceRead(ctx context.Context, fence fencing.Fence, tx pgx.Tx) error {
	tx.(*recorder).refuse = true
	return fence.AdvanceTx(ctx, tx, 1)
}

// ofFence is the statement that a check sends, under a header. Package fencing has no other door to its statements, and
// needs none: what a transaction is asked to run is what has to be printed.
func ofFence(header string, check check) func(schema string, plain bool) (string, error) {
	return func(schema string, _ bool) (string, error) {
		var tx recorder
		// The error is the recorder's own, unless fencing refused to send anything.
		if err := check(context.Background(), fencing.Fence{Name: "name", Schema: schema}, &tx); tx.text == "" {
			return "", err
		}
		body := replaced(tx.text, func(i int) string {
			// Beyond name and token there is the schema, which is known here.
			if schema, ok := tx.args[i].(string); ok && i > 0 {
				return literal(schema)
			}
			return fmt.Sprintf("$%d", i+1)
		})
		return header + strings.TrimRight(body, "\n") + ";\n", nil
	}
}

// A recorder is a transaction that notes the statement it is asked to run, and runs nothing.
type recorder struct {
	pgx.Tx
	refuse bool // the next statement has no row
	text   string
	args   []any
}

func (r *recorder) QueryRow(_ context.Context, text string, args ...any) pgx.Row {
	if r.refuse {
		r.refuse = false
		return noRow{pgx.ErrNoRows}
	}
	r.text, r.args = text, args
	return noRow{fmt.Errorf("not run: %w", context.Canceled)}
}

type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }
