package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// FuzzStatement: with any schema a statement is refused before it is printed, or a server parses it and looks for the tables in
// that very schema: there is none, so its error names what it looked for.
func FuzzStatement(f *testing.F) {
	names := []string{"acquire", "enter", "identify", "inspect", "raise", "reap", "release", "renew"}
	for i, schema := range []string{
		"public", "", "{schema}", `a"b`, `"`, "a.b", "; DROP TABLE x; --", "/* ", "*/", "--", "\n-- x\n", "$1", "'", `\`, "é", "a\x00b", "\xff", "pg_temp", "$user",
		strings.Repeat("x", 63), strings.Repeat("x", 64), "x;", "U&\"x\"", "-- cluster: begin", "\u2028", " ", "%", ":name",
	} {
		f.Add(uint8(i), schema, i%2 == 0)
	}
	in := install(f)
	f.Add(uint8(0), in.schema, false)
	f.Fuzz(func(t *testing.T, which uint8, schema string, plain bool) {
		ctx, cancel := context.WithTimeout(t.Context(), fuzzLimit)
		defer cancel()
		text, err := pglock.Statement(names[int(which)%len(names)], schema, plain)
		if schema == "" || len(schema) > 63 || !utf8.ValidString(schema) || strings.ContainsRune(schema, 0) {
			require.ErrorContains(t, err, "pglock: schema ")
			require.Empty(t, text)
			return
		}
		require.NoError(t, err)
		conn, err := in.pool.Acquire(ctx)
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Conn().PgConn().Prepare(ctx, "", text, nil)
		var answer *pgconn.PgError
		if err == nil {
			// Somebody has the tables there: this test, or one who uses the same server.
			var there bool
			err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'pglock_leases')", schema).Scan(&there)
			require.NoError(t, err)
			require.True(t, there, text)
			return
		}
		require.True(t, errors.As(err, &answer), "%v\n%s", err, text)
		require.Equal(t, "42P01", answer.Code, "%v\n%s", err, text)
		require.Contains(t, []string{
			`relation "` + schema + `.pglock_leases" does not exist`,
			`relation "` + schema + `.pglock_epochs" does not exist`,
			`relation "` + schema + `.job_fences" does not exist`,
		}, answer.Message)
	})
}
