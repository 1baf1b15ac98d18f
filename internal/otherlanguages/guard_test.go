package otherlanguages

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestGuard_EveryLanguagePassesIt: the fence check of each declares to a guarded table what it passed.
func TestGuard_EveryLanguagePassesIt(t *testing.T) {
	t.Parallel()
	place := newPlace(t, findPrograms(t))
	place.exec(t, "SELECT pglock_guard_table('invoices', $1)", name)
	for i, w := range writers() {
		customer := string(rune('a' + i))
		require.Equal(t, fmt.Sprintf("invoiced %s with token %d", customer, i+1), w.run(t, place, customer))
	}

	_, err := place.admin.Exec(t.Context(), "INSERT INTO invoices (customer, amount, token) VALUES ('z', 1, 9)")
	var pg *pgconn.PgError
	require.True(t, errors.As(err, &pg), err)
	require.Equal(t, "LH001", pg.Code)
	require.Equal(t, []int64{1, 2, 3, 4}, place.tokens(t))
}
