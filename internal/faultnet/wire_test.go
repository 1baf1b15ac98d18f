package faultnet

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// wired returns a pool of one connection through a wire, and a table with an int column to write to.
func wired(t *testing.T) (*Wire, *pgxpool.Pool, string) {
	t.Helper()
	dsn, schema := pgtest.Schema(t)
	table := pgx.Identifier{schema, "writes"}.Sanitize()
	_, err := pgtest.Pool(t, dsn).Exec(t.Context(), "CREATE TABLE "+table+" (n int)")
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.MaxConns = 1
	wire := &Wire{}
	config.ConnConfig.DialFunc = wire.Dial(config.ConnConfig.DialFunc)
	return wire, pgtest.PoolWith(t, config), table
}

func rows(t *testing.T, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func TestWire_CountsRoundTrips(t *testing.T) {
	t.Parallel()
	wire, pool, table := wired(t)
	trips := func(what func(conn *pgx.Conn) error) int {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		before := wire.Trips()
		require.NoError(t, what(conn.Conn()))
		return wire.Trips() - before
	}
	require.Zero(t, trips(func(*pgx.Conn) error { return nil }), "connecting")
	insert := "INSERT INTO " + table + " VALUES ($1)"
	exec := func(mode pgx.QueryExecMode) func(*pgx.Conn) error {
		return func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), insert, mode, 1)
			return err
		}
	}
	require.Equal(t, 1, trips(exec(pgx.QueryExecModeSimpleProtocol)))
	require.Equal(t, 1, trips(exec(pgx.QueryExecModeExec)))
	require.Equal(t, 2, trips(exec(pgx.QueryExecModeCacheStatement)), "prepare and execute")
	require.Equal(t, 1, trips(exec(pgx.QueryExecModeCacheStatement)), "prepared")
	require.Equal(t, 3, trips(func(conn *pgx.Conn) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), insert, 1)
			return err
		})
	}))
	require.Equal(t, 1, trips(func(conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		for range 5 {
			batch.Queue(insert, 1)
		}
		return conn.SendBatch(t.Context(), batch).Close()
	}), "a batch is one flush")
	require.Equal(t, 1, trips(func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "SELECT length($1)", pgx.QueryExecModeExec, strings.Repeat("long", 1<<20))
		return err
	}), "however long")
}

// transfer is a transaction of four statements; the fault must break exactly one of its round trips.
func transfer(ctx context.Context, pool *pgxpool.Pool, table string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for n := range 2 {
			if _, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", pgx.QueryExecModeExec, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestWire_BreaksEachRoundTripBeforeSending(t *testing.T) {
	t.Parallel()
	wire, pool, table := wired(t)
	n := 1
	for ; ; n++ {
		wire.Fail(n, BeforeSend())
		err := transfer(t.Context(), pool, table)
		fired := wire.Fired()
		wire.Heal()
		if !fired {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, syscall.ECONNRESET, "trip %d", n)
		require.Zero(t, rows(t, pool, table), "nothing is committed")
	}
	require.Equal(t, 5, n, "begin, two inserts, commit")
	require.Equal(t, 2, rows(t, pool, table))
}

func TestWire_BreaksEachRoundTripAfterTheServerDidIt(t *testing.T) {
	t.Parallel()
	wire, pool, table := wired(t)
	for n := 1; n <= 4; n++ {
		wire.Fail(n, AfterSend())
		err := transfer(t.Context(), pool, table)
		require.True(t, wire.Fired())
		require.Error(t, err, "trip %d", n)
		if n == 2 || n == 3 {
			// BEGIN and COMMIT have no arguments, and go by the simple protocol. There pgx 5.12 loses the reason and
			// says "conn closed", which pgconn.SafeToRetry takes for "not sent".
			require.ErrorIs(t, err, syscall.ECONNRESET, "trip %d", n)
			require.False(t, pgconn.SafeToRetry(err), "trip %d", n)
		}
		want := 0
		if n == 4 { // the COMMIT
			want = 2
		}
		require.Equal(t, want, rows(t, pool, table), "trip %d", n)
	}
}

func TestWire_LateReplyComesAndObeysTheContext(t *testing.T) {
	t.Parallel()
	wire, pool, table := wired(t)
	insert := "INSERT INTO " + table + " VALUES (1)"
	_, err := pool.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)

	wire.Fail(1, LateReply(200*time.Millisecond))
	start := time.Now()
	_, err = pool.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)

	wire.Fail(1, LateReply(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(ctx, insert, pgx.QueryExecModeSimpleProtocol)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 3, rows(t, pool, table), "the server has done it")
}

func TestScanner_FindsMessagesInPieces(t *testing.T) {
	stream := []byte("Q\x00\x00\x00\x06abS\x00\x00\x00\x04Z\x00\x00\x00\x05I")
	for size := 1; size <= len(stream); size++ {
		var s scanner
		var kinds string
		for rest := stream; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			for len(piece) > 0 {
				m, after, done := s.next(piece)
				piece = after
				if done {
					kinds += string(m.kind)
				}
			}
		}
		require.Equal(t, "QSZ", kinds, size)
		require.True(t, s.between())
	}
}
