package fencing_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// moments are when a grant with a higher token meets the transaction of the holder before.
var moments = []string{
	"before the snapshot",
	"between snapshot and check",
	"in flight, commits",
	"in flight, rolls back",
	"after the check",
}

// expected is what a check has to say. The reason is always the same: either the row version that is locked tells the truth,
// or the server refuses to lock one that is newer than the snapshot.
func expected(moment, position, level string) string {
	snapshot := level != "read committed"
	switch {
	case moment == "in flight, rolls back", moment == "after the check":
		return "ok"
	case moment == "in flight, commits" && snapshot:
		return "error 40001"
	case moment == "between snapshot and check" && snapshot && position == "last":
		return "error 40001" // First in a transaction, the check itself takes the snapshot: BEGIN does not.
	}
	return "stale: fence at 2"
}

// TestFence_EveryFormMeetsAConcurrentGrant goes through form × driver × first or last statement × isolation level × moment
// of the grant. A transaction that was not passed leaves no row, and after 40001 the retry is refused.
func TestFence_EveryFormMeetsAConcurrentGrant(t *testing.T) {
	t.Parallel()
	for _, driver := range drivers {
		for _, level := range levels {
			t.Run(driver+"/"+level, func(t *testing.T) {
				t.Parallel()
				m := newMatrix(t, driver, level)
				for _, form := range forms {
					for _, position := range []string{"first", "last"} {
						for _, moment := range moments {
							t.Run(form+"/"+position+"/"+moment, func(t *testing.T) { m.run(t, form, position, moment) })
						}
					}
				}
			})
		}
	}
}

// A matrix is a schema with a holder, who uses the package, and a granter, who raises the fence as a grant does.
type matrix struct {
	schema, level     string
	holder            session
	granter, observer *pgx.Conn
}

func newMatrix(t *testing.T, driver, level string) *matrix {
	dsn, schema := pgtest.Migrated(t)
	m := &matrix{schema: schema, level: level, granter: observe(t, dsn), observer: observe(t, dsn)}
	m.holder, _ = connect(t, driver, dsn)
	_, err := m.observer.Exec(within(t), "CREATE TABLE "+quoted(schema)+".writes (note text NOT NULL)")
	require.NoError(t, err)
	return m
}

func (m *matrix) run(t *testing.T, form, position, moment string) {
	ctx := within(t)
	f := fencing.Fence{Name: t.Name(), Schema: m.schema}
	var start fencing.Token = 1 // a grant has raised it
	if form == "strict" {
		start = 0
	}
	_, err := m.observer.Exec(ctx, "INSERT INTO "+quoted(m.schema)+".job_fences (name, token) VALUES ($1, $2)", f.Name, start)
	require.NoError(t, err)

	if moment == "before the snapshot" {
		require.NoError(t, m.grant(ctx, m.granter, f, 2))
	}
	require.NoError(t, m.holder.begin(t.Context(), m.level))
	if position == "last" {
		require.NoError(t, m.write(ctx, f))
	}
	got := m.check(ctx, t, form, f, moment)
	require.Equal(t, expected(moment, position, m.level), outcome(got))
	if got != nil {
		require.Equal(t, outcome(got)[:5] == "stale", isStale(got), "only a refusal is stale")
		require.NoError(t, m.holder.rollback(ctx))
		require.Zero(t, m.written(ctx, t, f), "a refused transaction leaves a row")

		require.NoError(t, m.holder.begin(t.Context(), m.level))
		require.ErrorIs(t, m.holder.check(ctx, form, f, 1), fencing.ErrStale, "the retry")
		require.NoError(t, m.holder.rollback(ctx))
		return
	}

	if position == "first" {
		require.NoError(t, m.write(ctx, f))
	}
	// The grant has to wait until the transaction ends.
	granted := make(chan error, 1)
	go func() { granted <- m.grant(ctx, m.granter, f, 2) }()
	require.True(t, untilBlockedOr(t, m.observer, int32(m.granter.PgConn().PID()), granted), "the grant did not wait")
	require.NoError(t, m.holder.commit(ctx))
	require.NoError(t, <-granted)
	require.Equal(t, 1, m.written(ctx, t, f))
}

// check runs the check with the grant at the given moment.
func (m *matrix) check(ctx context.Context, t *testing.T, form string, f fencing.Fence, moment string) error {
	switch moment {
	case "between snapshot and check":
		require.NoError(t, m.grant(ctx, m.granter, f, 2))
	case "in flight, commits", "in flight, rolls back":
		tx, err := m.granter.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, m.grant(ctx, tx, f, 2))
		var pid int32
		done := make(chan error, 1)
		require.NoError(t, m.holder.scan(ctx, []any{&pid}, "SELECT pg_backend_pid()"))
		go func() { done <- m.holder.check(ctx, form, f, 1) }()
		require.True(t, untilBlockedOr(t, m.observer, pid, done), "the check did not wait")
		if moment == "in flight, commits" {
			require.NoError(t, tx.Commit(ctx))
		} else {
			require.NoError(t, tx.Rollback(ctx))
		}
		return <-done
	}
	return m.holder.check(ctx, form, f, 1)
}

// A grantor is a connection or a transaction.
type grantor interface {
	QueryRow(ctx context.Context, text string, args ...any) pgx.Row
}

// grant raises the fence as a grant's statement does.
func (m *matrix) grant(ctx context.Context, by grantor, f fencing.Fence, token fencing.Token) error {
	var raised int64
	text := "UPDATE " + quoted(m.schema) + ".job_fences SET token = $2 WHERE name = $1 AND token < $2 RETURNING token"
	if err := by.QueryRow(ctx, text, f.Name, int64(token)).Scan(&raised); err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}

func (m *matrix) write(ctx context.Context, f fencing.Fence) error {
	return m.holder.scan(ctx, nil, "INSERT INTO "+quoted(m.schema)+".writes (note) VALUES ($1)", f.Name)
}

func (m *matrix) written(ctx context.Context, t *testing.T, f fencing.Fence) (count int) {
	text := "SELECT count(*) FROM " + quoted(m.schema) + ".writes WHERE note = $1"
	require.NoError(t, m.observer.QueryRow(ctx, text, f.Name).Scan(&count))
	return count
}
