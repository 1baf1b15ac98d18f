package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestRun_ServesTheTablesUntilTheEnd follows what a person does: read the DSN, connect, stop.
func TestRun_ServesTheTablesUntilTheEnd(t *testing.T) {
	given, schema := pgtest.Schema(t)
	t.Setenv("LEASEHOLD_TEST_DSN", given)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, schema, writer, io.Discard)
		_ = writer.Close()
		done <- err
	}()
	var told bytes.Buffer
	buffer := make([]byte, 4096)
	for !strings.Contains(told.String(), "go test") {
		n, err := reader.Read(buffer)
		require.NoError(t, err, told.String())
		told.Write(buffer[:n])
	}
	_, rest, _ := strings.Cut(told.String(), "psql '")
	dsn, _, _ := strings.Cut(rest, "'")

	conn, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	var leases int
	table := pgx.Identifier{schema, "pglock_leases"}.Sanitize()
	require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&leases))
	require.NoError(t, conn.Close(ctx))
	stop()
	require.NoError(t, <-done)
}
