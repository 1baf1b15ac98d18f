package pglock_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/pglock"
)

// mostEpoch is what enter.sql and raise.sql count: tokens beyond were written by hand.
const mostEpoch = 2147482624

// FuzzEpochs: whatever tokens and bases are found, as after restores and moves between clusters, a grant is above every token
// of its name, and after a raise above all that are in use; or it is refused with a word about the rows that were written by hand.
//
// Each nine bytes are one row: its kind and its value.
func FuzzEpochs(f *testing.F) {
	type row struct {
		kind  byte
		value uint64
	}
	const epoch = 1 << 32
	for _, seed := range [][]row{
		{}, {{0, 1}}, {{0, 5 * epoch}}, {{1, 5 * epoch}}, {{2, 5 * epoch}}, {{0, epoch}, {1, 2 * epoch}, {2, 3 * epoch}}, {{1, 1023 * epoch}},
		{{1, 1024 * epoch}, {2, 1024 * epoch}}, {{0, (mostEpoch - 1) * epoch}, {0, 1}}, {{0, 1<<63 - 1}}, {{1, 1<<63 - 1}}, {{2, 2147482000 * epoch}},
		{{2, 2147483647 * epoch}, {1, epoch}}, {{2, 7 * epoch}, {2, 9 * epoch}}, {{0, mostEpoch * epoch}}, {{1, (mostEpoch - 3000) * epoch}},
	} {
		var b []byte
		for _, r := range seed {
			b = binary.BigEndian.AppendUint64(append(b, r.kind), r.value)
		}
		f.Add(b)
	}
	in := install(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), fuzzLimit)
		defer cancel()
		_, err := in.pool.Exec(ctx, sqlIn(in, "TRUNCATE %s.pglock_leases, %s.job_fences, %s.pglock_epochs"))
		require.NoError(t, err)
		var highest, own, base int64
		for i := range min(len(data)/9, 6) {
			token, name := int64(binary.BigEndian.Uint64(data[9*i+1:])&(1<<63-1)), string(rune('a'+i))
			switch data[9*i] % 3 {
			case 0:
				_, err = in.pool.Exec(ctx, sqlIn(in, `INSERT INTO %s.pglock_leases (name, token, holder, acquired_at, renewed_at)
					VALUES ($1, $2, gen_random_uuid(), now(), now())`), name, max(token, 1))
			case 1:
				_, err = in.pool.Exec(ctx, sqlIn(in, "INSERT INTO %s.job_fences (name, token) VALUES ($1, $2)"), name, token)
			default:
				base = max(base, token>>32)
				_, err = in.pool.Exec(ctx, sqlIn(in, "INSERT INTO %s.pglock_epochs (system_identifier, base) VALUES ($1, $2)"), i+1, token>>32)
				token = 0
			}
			require.NoError(t, err)
			highest = max(highest, token)
			if name == "a" {
				own = token
			}
		}
		client, err := pglock.New(in.pool, pglock.Config{Schema: in.schema})
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close(context.WithoutCancel(ctx))) }()
		lease, err := client.TryAcquire(ctx, "a")
		if err != nil {
			require.ErrorContains(t, err, "was written by hand")
			require.GreaterOrEqual(t, max(own>>32, base), int64(mostEpoch), "can be granted past: %v", err)
			return
		}
		require.Greater(t, int64(lease.Token()), own)
		require.NoError(t, lease.Release(ctx))
		raised, err := client.RaiseEpoch(ctx)
		if max(highest>>32, base) >= mostEpoch-2048 {
			return // So near the end that a raise may be refused; a grant was checked.
		}
		require.NoError(t, err)
		require.Greater(t, raised.Base, highest>>32)
		require.Greater(t, raised.Base, int64(lease.Token())>>32)
		lease, err = client.TryAcquire(ctx, "a")
		require.NoError(t, err)
		require.Greater(t, int64(lease.Token()), raised.Base<<32)
		require.NoError(t, lease.Release(ctx))
	})
}

// sqlIn puts the schema into a statement.
func sqlIn(in installation, text string) string {
	return strings.ReplaceAll(text, "%s", pgx.Identifier{in.schema}.Sanitize())
}
