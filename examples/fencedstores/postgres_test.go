package fencedstores_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/examples/fencedstores"
	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// within is a pool that finds the tables of a schema without their schema.
func within(t *testing.T, dsn, schema string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	return pgtest.PoolWith(t, config)
}

func hold(t *testing.T, pool *pgxpool.Pool, schema string) *pglock.Lease {
	t.Helper()
	client, err := pglock.New(pool, pglock.Config{Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	lease, err := client.TryAcquire(t.Context(), "invoice-job")
	require.NoError(t, err)
	return lease
}

func TestElsewhere_TheFirstWriteOfATermRaisesTheFence(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	locks := pgtest.Pool(t, dsn)
	other := pgtest.Private(t, nil) // another server
	there := pgtest.MigratedOn(t, other.DSN())
	elsewhere := within(t, other.DSN(), there)
	ctx := t.Context()
	_, err := elsewhere.Exec(ctx, "CREATE TABLE invoices (number bigserial, token bigint)")
	require.NoError(t, err)
	fence := fencing.Fence{Name: "billing/invoice-job", Schema: there}
	write := func(lease *pglock.Lease) error {
		return fencedstores.WriteElsewhere(ctx, elsewhere, fence, lease.Token(), func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO invoices (token) VALUES ($1)", lease.Token())
			return err
		})
	}

	first := hold(t, locks, schema)
	require.ErrorIs(t, write(first), fencing.ErrNoFence, "it is made once, not by who writes")
	require.NoError(t, fencedstores.CreateElsewhere(ctx, elsewhere, fence))
	require.NoError(t, write(first))
	require.NoError(t, first.Release(ctx))
	second := hold(t, locks, schema)
	require.NoError(t, write(first), "the gap: nobody there knows of the grant")
	err = pgx.BeginFunc(ctx, elsewhere, func(tx pgx.Tx) error { return fence.ShareTx(ctx, tx, second.Token()) })
	require.ErrorIs(t, err, fencing.ErrNotRaised, "the shared form is not for it")
	require.NoError(t, write(second))
	require.ErrorIs(t, write(first), fencing.ErrStale)
	require.NoError(t, fencedstores.CreateElsewhere(ctx, elsewhere, fence), "again: it changes nothing")
	require.ErrorIs(t, write(first), fencing.ErrStale)
}

func TestOutbox_OneMessageAnOccurrence(t *testing.T) {
	t.Parallel()
	dsn, schema := pgtest.Migrated(t)
	pool := within(t, dsn, schema)
	ctx := t.Context()
	_, err := pool.Exec(ctx, fencedstores.OutboxTable)
	require.NoError(t, err)
	night := time.Date(2026, 12, 1, 2, 0, 0, 0, time.FixedZone("CET", 3600))
	enqueue := func(lease *pglock.Lease, about string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return fencedstores.Enqueue(ctx, tx, lease, fencedstores.Key("invoice-job", night, about), "to "+about)
		})
	}

	first := hold(t, pool, schema)
	require.NoError(t, enqueue(first, "Alfreds"))
	require.NoError(t, first.Release(ctx))
	second := hold(t, pool, schema)
	require.ErrorIs(t, enqueue(first, "Bolero"), fencing.ErrStale)
	require.NoError(t, enqueue(second, "Alfreds"), "the same run, done again")
	require.NoError(t, enqueue(second, "Bolero"))

	received := map[string][]string{}
	failed := errors.New("the mail server is away")
	send := func(fail bool) func(context.Context, string, string) error {
		return func(_ context.Context, key, message string) error {
			received[key] = append(received[key], message)
			if fail {
				return failed // and not known whether it was sent
			}
			return nil
		}
	}
	_, err = fencedstores.Relay(ctx, pool, send(true))
	require.ErrorIs(t, err, failed)
	for _, want := range []bool{true, true, false} {
		sent, err := fencedstores.Relay(ctx, pool, send(false))
		require.NoError(t, err)
		require.Equal(t, want, sent)
	}
	require.Len(t, received, 2, "two keys")
	copies := 0
	for _, messages := range received {
		copies += len(messages)
	}
	require.Equal(t, 3, copies, "one of them twice, under one key")
}

func TestKey_IsOfTheOccurrence(t *testing.T) {
	t.Parallel()
	night := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	key := fencedstores.Key("invoice-job", night, "Alfreds")
	require.Equal(t, key, fencedstores.Key("invoice-job", night.In(time.FixedZone("CET", 3600)), "Alfreds"))
	require.Equal(t, "7cef3486f460ed796265f05ab44fdc34", key, "frozen: another key is another message")
	for _, other := range []string{
		fencedstores.Key("invoice-job", night.Add(24*time.Hour), "Alfreds"),
		fencedstores.Key("invoice-jobs", night, "Alfreds"),
		fencedstores.Key("invoice-job", night, "Bolero"),
	} {
		require.NotEqual(t, key, other)
	}
}
