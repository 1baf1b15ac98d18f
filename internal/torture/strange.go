package torture

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// What the server may answer while it is tortured: SQLSTATE classes and codes.
var expected = []string{
	"08",             // connection
	"40",             // rollback: serialization, deadlock
	"55P03", "57014", // lock_timeout; statement_timeout or cancelled
	"57P01", "57P02", "57P03", "57P05", // shutdown, crash, start-up, idle session
	"25P03", "25P02", // idle in transaction; the transaction is aborted already
}

// strange notes an error of the server that no fault accounts for: a statement that is wrong in some mode or state would
// hide among the failures otherwise.
func (g *log) strange(what string, err error) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || slices.Contains(expected, pg.Code) || slices.Contains(expected, pg.Code[:2]) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if text := what + ": " + err.Error(); !slices.Contains(g.errors, text) {
		g.errors = append(g.errors, text)
	}
}
