package fencing_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// errRolledBack ends a transaction whose work is done.
var errRolledBack = errors.New("rolled back")

// FuzzGuards: a table or its rows may be guarded by a fence of any name. The guard lets through who passed that very fence, refuses who
// passed one with another name, and is listed under the name as it was given.
func FuzzGuards(f *testing.F) {
	for _, seed := range [][2]string{
		{"job", "jo"}, {"a.b", "a"}, {`"`, `""`}, {`'`, `''`}, {`\`, `\\`}, {`\x00`, `\000`}, {"a\nb", "a b"}, {"%I", "%%"}, {"$check$", "$1"}, {`": 1, "`, `"`}, {"é", "e\u0301"}, {"", "x"},
		{"x\x00", "x"}, {"\xff", "\xfe"}, {strings.Repeat("x", 254), strings.Repeat("x", 255)}, {"{schema}", "{schema_text}"}, {"\U0010ffff", "\ufffd"}, {"00", "0"}, {" ", "  "},
	} {
		f.Add(seed[0], seed[1])
	}
	dsn, schema := pgtest.Migrated(f)
	pool := pgtest.Pool(f, dsn)
	fine := func(name string) bool {
		return name != "" && len(name) <= 250 && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if !fine(name) || !fine(other) || name == other {
			return // What is no name: FuzzNames of pglock.
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			run := func(sql string) error {
				return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
					_, err := inner.Exec(ctx, sql)
					return err
				})
			}
			require.NoError(t, run("CREATE TEMP TABLE whole (id text) ON COMMIT DROP"))
			require.NoError(t, run("CREATE TEMP TABLE rows (id text, token bigint) ON COMMIT DROP"))
			fence, another := fencing.Fence{Name: name, Schema: schema}, fencing.Fence{Name: other, Schema: schema}
			row := fencing.Fence{Name: name + "1", Schema: schema}
			for _, one := range []fencing.Fence{fence, another, row} {
				require.NoError(t, one.CreateTx(ctx, tx))
			}
			require.NoError(t, fence.GuardTx(ctx, tx, "whole"))
			require.NoError(t, fence.GuardRowsTx(ctx, tx, "rows", "id", "token"))
			require.NoError(t, another.AdvanceTx(ctx, tx, 9))
			requireState(t, "LH001", run("INSERT INTO whole VALUES ('1')"))
			if row.Name != other {
				requireState(t, "LH001", run("INSERT INTO rows VALUES ('1')"))
			}
			require.NoError(t, fence.AdvanceTx(ctx, tx, 7))
			require.NoError(t, run("INSERT INTO whole VALUES ('1')"))
			require.NoError(t, row.AdvanceTx(ctx, tx, 9))
			require.NoError(t, run("INSERT INTO rows VALUES ('1')"))
			list, err := fence.GuardsTx(ctx, tx)
			require.NoError(t, err)
			require.Len(t, list, 2, "%q", name)
			list, err = another.GuardsTx(ctx, tx)
			require.NoError(t, err)
			require.Empty(t, list, "%q is not %q", other, name)
			require.NoError(t, fence.UnguardTx(ctx, tx, "whole"))
			require.NoError(t, fence.UnguardTx(ctx, tx, "rows"))
			return errRolledBack
		})
		require.ErrorIs(t, err, errRolledBack)
	})
}

func requireState(t *testing.T, want string, err error) {
	t.Helper()
	var state interface{ SQLState() string }
	require.True(t, errors.As(err, &state), "%v", err)
	require.Equal(t, want, state.SQLState())
}
