package main

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-go/leasehold/internal/torture/protocol"
)

// What the server may answer while it is tortured: SQLSTATE classes and codes.
var expected = []string{
	"08",             // connection; PgBouncer's own complaints, too
	"40",             // rollback: serialization, deadlock
	"55P03", "57014", // lock_timeout; statement_timeout or cancelled
	"57P01", "57P02", "57P03", "57P05", // shutdown, crash, start-up, idle session
	"25P03", "25P02", // idle in transaction; the transaction is aborted already
	"53100", "58", // the disk is full; what the operating system says of it
}

// strange notes an error of the server that no fault accounts for: a statement that is wrong in some mode or state would
// hide among the failures otherwise.
func (c *client) strange(what string, err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || slices.Contains(expected, pg.Code) || slices.Contains(expected, pg.Code[:2]) {
		return
	}
	c.book.Remark("%s%s: %v", protocol.NoteStrange, what, err)
}
