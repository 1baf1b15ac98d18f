package pglock_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/pglock"
)

// fuzzLimit bounds one input. A machine that is busy with other fuzzers needs some of it.
const fuzzLimit = 30 * time.Second

// takable says which names the tables take.
func takable(name string) bool {
	return name != "" && len(name) <= 255 && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// FuzzNames: a name comes back as it was given from acquire, the rows and the fence; two names that differ are two locks; what is no
// name is refused by both packages, with nothing sent. Labels and metadata are the same texts, and come back too.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{
		{"invoice-job", "invoice-job "}, {"", "a"}, {"a\x00b", "a"}, {"\xff", "\xfe"}, {"é", "e\u0301"}, {"A", "a"}, {"'; DROP TABLE job_fences; --", "''"},
		{`a"b`, `a""b`}, {`\`, `\\`}, {"$1", "$2"}, {"{schema}", "{schema_text}"}, {"%s", "%d"}, {"a\nb", "a\r\nb"}, {"\u202eabc", "abc"},
		{strings.Repeat("é", 127), strings.Repeat("é", 128)}, {strings.Repeat("x", 255), strings.Repeat("x", 256)}, {"\U0010ffff", "\ufffd"}, {" ", "\t"}, {"ß", "ss"},
		{`{"public.x": 9}`, `", "public.x": 9`},
	} {
		f.Add(seed[0], seed[1])
	}
	in := install(f)
	client := in.client(f, pglock.Config{})
	f.Fuzz(func(t *testing.T, name, other string) {
		ctx, cancel := context.WithTimeout(t.Context(), fuzzLimit)
		defer cancel()
		lease, err := client.TryAcquire(ctx, name)
		if !takable(name) {
			require.Nil(t, lease)
			require.ErrorContains(t, err, "pglock: name ")
			requireRefusedByFence(ctx, t, in, name)
			return
		}
		require.NoError(t, err, "%q", name)
		defer func() { require.NoError(t, lease.Release(ctx)) }()
		require.Equal(t, name, lease.Name())

		_, err = client.TryAcquire(ctx, name)
		var held *pglock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, name, held.Name)
		require.Equal(t, lease.Token(), held.Token)
		require.True(t, utf8.ValidString(err.Error()))

		err = pgx.BeginFunc(ctx, in.pool, func(tx pgx.Tx) error {
			require.NoError(t, lease.AdvanceTx(ctx, tx))
			require.NoError(t, lease.ShareTx(ctx, tx))
			var declared string
			require.NoError(t, tx.QueryRow(ctx, "SELECT current_setting('pglock.passed')").Scan(&declared))
			var passed map[string]int64
			require.NoError(t, json.Unmarshal([]byte(declared), &passed), declared)
			require.Equal(t, map[string]int64{(pgx.Identifier{in.schema}).Sanitize() + "." + name: int64(lease.Token())}, unquoted(passed, in.schema))
			return nil
		})
		require.NoError(t, err)
		statement, err := pglock.Statement("inspect", in.schema, false)
		require.NoError(t, err)
		found := rowsOf(ctx, t, in, statement, []string{name, name + "?"})
		require.Equal(t, []string{name}, found)

		if name == other || !takable(other) {
			return
		}
		second, err := client.TryAcquire(ctx, other)
		require.NoError(t, err, "%q is another lock than %q", other, name)
		require.NoError(t, second.Release(ctx))
		require.NoError(t, lease.Err())
	})
}

// unquoted has keys with the schema in quotes, which quote_ident leaves out where none are needed.
func unquoted(passed map[string]int64, schema string) map[string]int64 {
	keys := map[string]int64{}
	for key, token := range passed {
		if rest, plain := strings.CutPrefix(key, schema+"."); plain {
			key = (pgx.Identifier{schema}).Sanitize() + "." + rest
		}
		keys[key] = token
	}
	return keys
}

func rowsOf(ctx context.Context, t *testing.T, in installation, statement string, names []string) (found []string) {
	t.Helper()
	rows, err := in.pool.Query(ctx, statement, names)
	require.NoError(t, err)
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name, nil, nil, nil, nil}, func() error {
		found = append(found, name)
		return nil
	})
	require.NoError(t, err)
	return found
}

var errEnough = errors.New("seen")

func requireRefusedByFence(ctx context.Context, t *testing.T, in installation, name string) {
	t.Helper()
	fence := fencing.Fence{Name: name, Schema: in.schema}
	err := pgx.BeginFunc(ctx, in.pool, func(tx pgx.Tx) error {
		for _, err := range []error{fence.AdvanceTx(ctx, tx, 1), fence.ShareTx(ctx, tx, 1), fence.AdvanceStrictTx(ctx, tx, 1), fence.CreateTx(ctx, tx)} {
			require.ErrorContains(t, err, "fencing: ")
			require.NotErrorIs(t, err, fencing.ErrNoFence, "it was not asked for")
		}
		_, err := tx.Exec(ctx, "SELECT 1")
		require.NoError(t, err, "nothing was sent, so the transaction goes on")
		return errEnough
	})
	require.ErrorIs(t, err, errEnough)
}

// FuzzLabels: what a client says of itself is stored as it is, shown to others as it is, and is never part of a statement.
func FuzzLabels(f *testing.F) {
	for _, seed := range [][3]string{
		{"host pid 1", "", ""}, {"'); DELETE FROM pglock_leases; --", "k", "v"}, {"", "a\x00", ""}, {"\xff", "", ""}, {`\"`, `"`, `\`}, {"x", "\xff", "y"}, {"<&>", "<", "\u2028"},
		{strings.Repeat("l", 256), "", ""}, {"l", "k", strings.Repeat("v", 4096)}, {"\u202e", "\ufeff", "\U0010ffff"}, {`{"a":1}`, "null", "NULL"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	in := install(f)
	f.Fuzz(func(t *testing.T, label, key, meta string) {
		ctx, cancel := context.WithTimeout(t.Context(), fuzzLimit)
		defer cancel()
		client, err := pglock.New(in.pool, pglock.Config{Schema: in.schema, Label: label, Metadata: map[string]string{key: meta}})
		if err != nil {
			require.ErrorContains(t, err, "pglock: ")
			return
		}
		defer func() { require.NoError(t, client.Close(context.WithoutCancel(ctx))) }()
		lease, err := client.TryAcquire(ctx, "job")
		require.NoError(t, err, "label %q, metadata %q: %q", label, key, meta)
		_, err = client.TryAcquire(ctx, "job")
		var held *pglock.HeldError
		require.ErrorAs(t, err, &held)
		if label != "" {
			require.Equal(t, label, held.Holder)
		}
		stored := value[string](t, in, "SELECT metadata::text FROM %s.pglock_leases WHERE name = 'job'")
		var metadata map[string]string
		require.NoError(t, json.Unmarshal([]byte(stored), &metadata))
		require.Equal(t, map[string]string{key: meta}, metadata)
		require.NoError(t, lease.Release(ctx))
	})
}
