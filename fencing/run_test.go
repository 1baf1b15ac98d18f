package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
)

// A running is a schema with a fence at 7 and a table, and a pool of one connection that Run uses, so that what a transaction
// leaves behind meets the next.
type running struct {
	dsn, schema string
	fence       fencing.Fence
	pool        *pgxpool.Pool
	conn        *pgx.Conn
}

func newRunning(t *testing.T, change func(config *pgxpool.Config)) *running {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.MaxConns = 1
	config.ConnConfig.RuntimeParams["search_path"] = quoted(schema)
	if change != nil {
		change(config)
	}
	r := &running{dsn: dsn, schema: schema, fence: fencing.Fence{Name: "job", Schema: schema}, pool: pgtest.PoolWith(t, config), conn: observe(t, dsn)}
	exec(t, r.conn, "SET search_path = "+quoted(schema))
	exec(t, r.conn, "CREATE TABLE writes (note text); INSERT INTO job_fences VALUES ('job', 7)")
	return r
}

func (r *running) run(t testing.TB, options fencing.RunOptions, work func(ctx context.Context, tx pgx.Tx) error) error {
	t.Helper()
	return r.fence.Run(within(t), r.pool, 7, options, work)
}

func write(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO writes VALUES ('note')")
	return err
}

func (r *running) written(t testing.TB) (count int) {
	t.Helper()
	require.NoError(t, r.conn.QueryRow(within(t), "SELECT count(*) FROM writes").Scan(&count))
	return count
}

func TestFenceRun_CommitsWhatWorkWroteAndRollsBackWhatItDidNot(t *testing.T) {
	t.Parallel()
	r := newRunning(t, nil)
	for i, options := range []fencing.RunOptions{{}, {Shared: true}, {IsoLevel: pgx.Serializable, Attempts: 1, Timeout: time.Minute}} {
		require.NoError(t, r.run(t, options, func(ctx context.Context, tx pgx.Tx) error {
			var level string
			require.NoError(t, tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level))
			if options.IsoLevel != "" {
				require.Equal(t, string(options.IsoLevel), level)
			}
			return write(ctx, tx)
		}))
		require.Equal(t, i+1, r.written(t))
	}

	mine := errors.New("mine")
	err := r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error { return errors.Join(write(ctx, tx), mine) })
	require.ErrorIs(t, err, mine)
	require.PanicsWithValue(t, "mine", func() {
		_ = r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error { _ = write(ctx, tx); panic("mine") })
	})
	require.ErrorIs(t, r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, write(ctx, tx))
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	}), pgx.ErrTxCommitRollback)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, r.fence.Run(ctx, r.pool, 7, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		cancel()
		return write(context.WithoutCancel(ctx), tx)
	}), context.Canceled)
	require.ErrorIs(t, r.run(t, fencing.RunOptions{Timeout: 50 * time.Millisecond}, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, write(ctx, tx))
		<-ctx.Done()
		return nil
	}), context.DeadlineExceeded)
	require.Equal(t, 3, r.written(t), "after each of these nothing is there")

	require.ErrorIs(t, r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(write(ctx, tx), tx.Commit(ctx))
	}), pgx.ErrTxClosed)
	require.Equal(t, 4, r.written(t), "work that commits has committed")
}

// TestFenceRun_PassesTheFenceFirst: a stale token never reaches work, and what a guarded table says is the same error.
func TestFenceRun_PassesTheFenceFirst(t *testing.T) {
	t.Parallel()
	r := newRunning(t, nil)
	never := func(context.Context, pgx.Tx) error { panic("called") }
	for _, shared := range []bool{false, true} {
		options := fencing.RunOptions{Shared: shared}
		require.ErrorIs(t, r.fence.Run(within(t), r.pool, 6, options, never), fencing.ErrStale)
		require.ErrorIs(t, fencing.Fence{Name: "none", Schema: r.schema}.Run(within(t), r.pool, 6, options, never), fencing.ErrNoFence)
	}
	require.ErrorIs(t, r.fence.Run(within(t), r.pool, 8, fencing.RunOptions{Shared: true}, never), fencing.ErrNotRaised)

	exec(t, r.conn, "INSERT INTO job_fences VALUES ('other', 3); SELECT pglock_guard_table('writes', 'other')")
	calls := 0
	err := r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		calls++
		require.NoError(t, declare(ctx, tx, fencing.Fence{Name: "other", Schema: r.schema}, 2))
		return write(ctx, tx)
	})
	require.ErrorIs(t, err, fencing.ErrStale)
	require.Equal(t, "LH002", refusal(t, err).Code)
	require.Equal(t, 1, calls)
	require.NotErrorIs(t, r.run(t, fencing.RunOptions{}, write), fencing.ErrStale, "unfenced is not stale")
}

// TestFenceRun_BoundIsLocalAndNeverLonger: the settings are those of the session again afterwards, and an administrator's that are
// shorter stay.
func TestFenceRun_BoundIsLocalAndNeverLonger(t *testing.T) {
	t.Parallel()
	const settings = "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'))"
	for before, inside := range map[[2]string]string{
		{"0", "0"}:         "7s 7s",
		{"1h", "8s"}:       "7s 7s",
		{"6999ms", "1min"}: "6999ms 7s",
		{"0", "1ms"}:       "7s 1ms",
	} {
		r := newRunning(t, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["statement_timeout"] = before[0]
		})
		// Not as a parameter of the connection: it would end the transaction of 1 ms.
		read := func(ctx context.Context, tx pgx.Tx) (text string) {
			require.NoError(t, tx.QueryRow(ctx, settings).Scan(&text))
			return text
		}
		if before[1] == "1ms" {
			continue
		}
		exec(t, r.pool, "SET idle_in_transaction_session_timeout = '"+before[1]+"'")
		require.NoError(t, r.run(t, fencing.RunOptions{Timeout: 7 * time.Second}, func(ctx context.Context, tx pgx.Tx) error {
			require.Equal(t, inside, read(ctx, tx))
			return nil
		}))
		var after string
		require.NoError(t, r.pool.QueryRow(within(t), settings).Scan(&after))
		require.Equal(t, before[0]+" "+before[1], after)
	}
}

// TestFenceRun_TriesAgainWhatCanSucceedAndNothingElse, at most as often as it was told.
func TestFenceRun_TriesAgainWhatCanSucceedAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRunning(t, nil)
	raise := func(ctx context.Context, tx pgx.Tx, state string) error {
		_, err := tx.Exec(ctx, fmt.Sprintf("DO 'BEGIN RAISE SQLSTATE ''%s''; END'", state))
		return fmt.Errorf("wrapped: %w", err)
	}
	for state, again := range map[string]bool{"40001": true, "40P01": true, "55P03": false, "57014": false, "23505": false, "LH001": false, "LH002": false} {
		for _, attempts := range []int{0, 1, 3} {
			want := 1
			if again {
				want = map[int]int{0: 5, 1: 1, 3: 3}[attempts]
			}
			calls := 0
			err := r.run(t, fencing.RunOptions{Attempts: attempts}, func(ctx context.Context, tx pgx.Tx) error {
				calls++
				require.NoError(t, write(ctx, tx))
				return raise(ctx, tx, state)
			})
			require.Equal(t, state, refusal(t, err).Code)
			require.Equal(t, want, calls, "%s with %d attempts", state, attempts)
		}
	}
	require.Zero(t, r.written(t))

	calls := 0
	require.NoError(t, r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		if calls++; calls < 3 {
			return raise(ctx, tx, "40001")
		}
		return write(ctx, tx)
	}))
	require.Equal(t, 3, calls)
	require.Equal(t, 1, r.written(t))

	// The snapshot is older than a grant: 40001 in the check, and the next attempt is refused.
	raised := false
	err := r.fence.Run(within(t), beginner(func(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
		tx, err := r.pool.BeginTx(ctx, options)
		if err == nil && !raised {
			raised = true
			exec(t, tx, "SELECT") // takes the snapshot
			exec(t, r.conn, "UPDATE job_fences SET token = 8 WHERE name = 'job'")
		}
		return tx, err
	}), 7, fencing.RunOptions{IsoLevel: pgx.RepeatableRead}, write)
	require.ErrorIs(t, err, fencing.ErrStale)
	require.Equal(t, 1, r.written(t))

	ctx, cancel := context.WithCancel(t.Context())
	err = r.fence.Run(ctx, r.pool, 8, fencing.RunOptions{Attempts: 1000}, func(_ context.Context, tx pgx.Tx) error {
		cancel()
		return raise(within(t), tx, "40001")
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "40001", refusal(t, err).Code)
}

type beginner func(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)

func (b beginner) BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	return b(ctx, options)
}

// TestFenceRun_WritersThatMeetAllCommitOnce: serialization failures and deadlocks of real transactions, tried again until each has
// committed.
func TestFenceRun_WritersThatMeetAllCommitOnce(t *testing.T) {
	t.Parallel()
	r := newRunning(t, func(config *pgxpool.Config) { config.MaxConns = 4 })
	exec(t, r.conn, "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL); INSERT INTO counters VALUES (0, 0), (1, 0)")
	const writers, rounds = 4, 10
	var calls atomic.Int64
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			options := fencing.RunOptions{Shared: true, Attempts: 100}
			if w%2 == 0 {
				options.IsoLevel = pgx.Serializable
			}
			for range rounds {
				err := r.fence.Run(t.Context(), r.pool, 7, options, func(ctx context.Context, tx pgx.Tx) error {
					calls.Add(1)
					for i := range 2 { // in two orders
						if _, err := tx.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = $1", (w/2+i)%2); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	group.Wait()
	var low, high int
	require.NoError(t, r.conn.QueryRow(within(t), "SELECT min(n), max(n) FROM counters").Scan(&low, &high))
	require.Equal(t, []int{writers * rounds, writers * rounds}, []int{low, high})
	t.Logf("%d calls for %d transactions", calls.Load(), writers*rounds)
}

// A cutConn loses what the server says after the next COMMIT has been sent, or breaks before it is sent.
type cutConn struct {
	net.Conn
	cut *cut
}

type cut struct{ before, after, lost atomic.Bool }

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.before.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	n, err := c.Conn.Write(p)
	if c.cut.after.Load() {
		c.cut.lost.Store(true)
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.cut.lost.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestFenceRun_UnknownOutcomeIsReportedAsSuch: the reply to COMMIT is lost, the server ends the session in COMMIT, the deadline
// passes in COMMIT; against a COMMIT that was refused, or never sent.
func TestFenceRun_UnknownOutcomeIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	var faults cut
	r := newRunning(t, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &cutConn{conn, &faults}, err
		}
	})
	exec(t, r.conn, `
		CREATE TABLE late (what text);
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE NEW.what; RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`)
	atCommit := func(what string) func(ctx context.Context, tx pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO late VALUES ($1)", what)
			return errors.Join(err, write(ctx, tx))
		}
	}
	var unknown *fencing.UnknownError

	err := r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		err := write(ctx, tx)
		faults.after.Store(true)
		return err
	})
	faults.after.Store(false)
	faults.lost.Store(false)
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "job", unknown.Name)
	require.Equal(t, fencing.Token(7), unknown.Token)
	require.Eventually(t, func() bool { return r.written(t) == 1 }, patience, time.Millisecond, "it was committed")

	err = r.run(t, fencing.RunOptions{}, atCommit("SELECT pg_terminate_backend(pg_backend_pid())"))
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "57P01", refusal(t, err).Code)
	err = r.run(t, fencing.RunOptions{Timeout: 300 * time.Millisecond}, func(ctx context.Context, tx pgx.Tx) error {
		exec(t, tx, "SET LOCAL statement_timeout = 0")
		return atCommit("SELECT pg_sleep(30)")(ctx, tx)
	})
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, r.written(t), "these were not, which Run cannot know")

	// Known: the server says so, or COMMIT was never sent.
	for what, state := range map[string]string{
		"SELECT 1/0": "22012",
		"DO 'BEGIN RAISE SQLSTATE ''40001''; END'": "40001",
	} {
		err := r.run(t, fencing.RunOptions{Attempts: 2}, atCommit(what))
		require.Equal(t, state, refusal(t, err).Code)
		require.False(t, errors.As(err, &unknown), err)
	}
	err = r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', '1ms', true)")
		require.NoError(t, err)
		var pid = tx.Conn().PgConn().PID()
		require.Eventually(t, func() bool { // ended for its silence
			var there bool
			require.NoError(t, r.conn.QueryRow(within(t), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid).Scan(&there))
			return !there
		}, patience, time.Millisecond)
		return nil
	})
	require.Error(t, err)
	if !errors.As(err, &unknown) { // it is, where the server's last words did not get through
		require.Equal(t, "25P03", refusal(t, err).Code)
	}
	require.Equal(t, 1, r.written(t))
	err = r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(write(ctx, tx), tx.Conn().Close(ctx))
	})
	require.ErrorContains(t, err, "not committed: the connection is closed")

	// The connection breaks when COMMIT is to be sent: whatever is said, it is not "committed", and nothing is there.
	err = r.run(t, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		err := write(ctx, tx)
		faults.before.Store(true)
		return err
	})
	faults.before.Store(false)
	require.Error(t, err)
	require.Equal(t, 1, r.written(t))

	// The end of the caller's context during COMMIT is not heeded.
	ctx, cancel := context.WithCancel(within(t))
	observer := observe(t, r.dsn)
	var pid uint32
	go func() {
		for {
			var sleeping bool
			err := observer.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')", pidOf(&pid)).Scan(&sleeping)
			if err != nil || sleeping {
				cancel()
				return
			}
		}
	}()
	require.NoError(t, r.fence.Run(ctx, r.pool, 7, fencing.RunOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		atomic.StoreUint32(&pid, tx.Conn().PgConn().PID())
		return atCommit("SELECT pg_sleep(0.5)")(ctx, tx)
	}))
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Equal(t, 2, r.written(t))
}

func pidOf(pid *uint32) int64 { return int64(atomic.LoadUint32(pid)) }

// TestFenceRun_BehindATransactionPooler: nothing of the bound is left on the pooler's connection.
func TestFenceRun_BehindATransactionPooler(t *testing.T) {
	t.Parallel()
	r := newRunning(t, nil)
	through := pgtest.PgBouncer(t, r.dsn, pgserver.BouncerOptions{PoolSize: 1}).DSN() + "&default_query_exec_mode=exec"
	a, b := observe(t, through), observe(t, through)
	for range 5 {
		require.NoError(t, r.fence.Run(within(t), a, 7, fencing.RunOptions{Timeout: 10 * time.Second}, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+quoted(r.schema)+".writes VALUES ('note')")
			return err
		}))
		var timeout string
		require.NoError(t, b.QueryRow(within(t), "SHOW statement_timeout").Scan(&timeout))
		require.Equal(t, "0", timeout)
	}
	require.Equal(t, 5, r.written(t))
}

func TestFenceRun_BadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	var db fencing.Beginner = beginner(func(context.Context, pgx.TxOptions) (pgx.Tx, error) { panic("called") })
	work := func(context.Context, pgx.Tx) error { panic("called") }
	f := fencing.Fence{Name: "job"}
	for want, call := range map[string]func() error{
		"the name is empty":         func() error { return fencing.Fence{}.Run(t.Context(), db, 7, fencing.RunOptions{}, work) },
		"token 0 is not above 0":    func() error { return f.Run(t.Context(), db, 0, fencing.RunOptions{}, work) },
		"no database given":         func() error { return f.Run(t.Context(), nil, 7, fencing.RunOptions{}, work) },
		"no work given":             func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{}, nil) },
		"the timeout of 1µs is not": func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{Timeout: time.Microsecond}, work) },
		"the timeout of -1s is not": func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{Timeout: -time.Second}, work) },
		"the timeout of 720h0m0s":   func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{Timeout: 720 * time.Hour}, work) },
		"-1 attempts are none":      func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{Attempts: -1}, work) },
		`isolation level "x; DROP"`: func() error { return f.Run(t.Context(), db, 7, fencing.RunOptions{IsoLevel: "x; DROP"}, work) },
	} {
		require.ErrorContains(t, call(), want)
	}
	broken := beginner(func(context.Context, pgx.TxOptions) (pgx.Tx, error) { return nil, &pgconn.PgError{Code: "53300"} })
	require.ErrorContains(t, f.Run(t.Context(), broken, 7, fencing.RunOptions{}, work), `fencing: run "job": begin: `)
}
