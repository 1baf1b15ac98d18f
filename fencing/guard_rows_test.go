package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// A ledger is a schema with customers, each with a lock of its own, in a plain table, a partitioned one and a child.
type ledger struct {
	dsn, schema string
	conn        *pgx.Conn
	fence       fencing.Fence // start of the names
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	l := &ledger{dsn: dsn, schema: schema, conn: observe(t, dsn), fence: fencing.Fence{Name: `cus"t\/`, Schema: schema}}
	exec(t, l.conn, "SET search_path = "+quoted(schema))
	exec(t, l.conn, `
		CREATE TABLE customers ("the id" int PRIMARY KEY, balance int NOT NULL DEFAULT 0, token bigint, twice int GENERATED ALWAYS AS (balance * 2) STORED);
		CREATE TABLE split (id text NOT NULL, token bigint NOT NULL DEFAULT 0) PARTITION BY LIST (id);
		CREATE TABLE split_1 PARTITION OF split FOR VALUES IN ('1');
		CREATE TABLE parents (id uuid, token bigint);
		CREATE TABLE kin () INHERITS (parents);
		INSERT INTO customers ("the id", token) VALUES (1, NULL), (2, 9);
		INSERT INTO split VALUES ('1')`)
	for i, token := range []int{7, 9, 4} {
		exec(t, l.conn, "INSERT INTO job_fences VALUES ($1, $2)", l.of(i+1).Name, token)
	}
	require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
		return errors.Join(
			l.fence.GuardRowsTx(within(t), tx, "customers", "the id", "token"),
			l.fence.GuardRowsTx(within(t), tx, "split", "id", "token"),
			l.fence.GuardRowsTx(within(t), tx, "parents", "id", "token"),
		)
	}))
	return l
}

// of is the fence of a customer.
func (l *ledger) of(id any) fencing.Fence {
	return fencing.Fence{Name: l.fence.Name + fmt.Sprint(id), Schema: l.schema}
}

// TestGuardRows_EachRowNeedsItsOwnFence: what a transaction may write after it has passed the fence of customer 1 with token 7, or done
// nothing, or said that it passed.
func TestGuardRows_EachRowNeedsItsOwnFence(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	one := func(ctx context.Context, tx pgx.Tx) error { return l.of(1).ShareTx(ctx, tx, 7) }
	both := func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(one(ctx, tx), l.of(2).AdvanceTx(ctx, tx, 9))
	}
	nothing := func(context.Context, pgx.Tx) error { return nil }
	says := func(id int, token fencing.Token) func(ctx context.Context, tx pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error { return declare(ctx, tx, l.of(id), token) }
	}
	cases := []struct {
		name    string
		prepare func(ctx context.Context, tx pgx.Tx) error
		text    string
		code    string
	}{
		{"its own", one, `UPDATE customers SET balance = 1 WHERE "the id" = 1`, ""},
		{"nothing", nothing, `UPDATE customers SET balance = 1 WHERE "the id" = 1`, "LH001"},
		{"nothing, no row", nothing, `UPDATE customers SET balance = 1 WHERE false`, ""},
		{"another's", one, `UPDATE customers SET balance = 1 WHERE "the id" = 2`, "LH001"},
		{"all of them", one, `UPDATE customers SET balance = 1`, "LH001"},
		{"all, passed", both, `UPDATE customers SET balance = 1`, ""},
		{"new key", one, `UPDATE customers SET "the id" = 3 WHERE "the id" = 1`, "LH001"},
		{"new key, passed", func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(one(ctx, tx), l.of(3).ShareTx(ctx, tx, 4))
		},
			`UPDATE customers SET "the id" = 3 WHERE "the id" = 1`, ""},
		{"token by hand", one, `UPDATE customers SET token = 3 WHERE "the id" = 1`, ""}, // is stamped
		{"delete", one, `DELETE FROM customers WHERE "the id" = 1`, ""},
		{"delete of another's", one, `DELETE FROM customers`, "LH001"},
		{"insert", func(ctx context.Context, tx pgx.Tx) error { return l.of(3).ShareTx(ctx, tx, 4) }, `INSERT INTO customers VALUES (3)`, ""},
		{"insert of another's", one, `INSERT INTO customers VALUES (3)`, "LH001"},
		{"upsert", one, `INSERT INTO customers VALUES (1) ON CONFLICT ("the id") DO UPDATE SET balance = 1`, ""},
		{"upsert of another's", one, `INSERT INTO customers VALUES (2) ON CONFLICT ("the id") DO UPDATE SET balance = 1`, "LH001"},
		{"truncate", both, `TRUNCATE customers`, "LH001"},
		{"stale", says(1, 6), `UPDATE customers SET balance = 1 WHERE "the id" = 1`, "LH002"},
		{"not raised", says(1, 8), `UPDATE customers SET balance = 1 WHERE "the id" = 1`, "LH003"},
		{"no fence", says(5, 8), `INSERT INTO customers VALUES (5)`, "LH003"},
		{"by hand", says(1, 7), `UPDATE customers SET balance = 1 WHERE "the id" = 1`, ""},
		{"partition", one, `UPDATE split SET token = 0`, ""},
		{"partition by name", nothing, `UPDATE split_1 SET token = 0`, "LH001"},
		{"later partition", nothing, `CREATE TABLE split_2 PARTITION OF split DEFAULT; INSERT INTO split_2 VALUES ('2')`, "LH001"},
		{"truncate of a partition", one, `TRUNCATE split_1`, "LH001"},
		{"child", nothing, `INSERT INTO kin VALUES (gen_random_uuid())`, "LH001"},
		{"no key", one, `INSERT INTO parents VALUES (NULL)`, "LH001"},
	}
	for _, c := range cases {
		for _, level := range levels {
			tx, err := l.conn.BeginTx(within(t), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			require.NoError(t, err)
			require.NoError(t, c.prepare(within(t), tx), c.name)
			_, err = tx.Exec(within(t), c.text)
			if c.code == "" {
				require.NoError(t, err, "%s at %s", c.name, level)
				for table, key := range map[string]string{"customers": `"the id"`, "split": "id"} {
					var wrong int
					text := fmt.Sprintf("SELECT count(*) FROM %s AS t WHERE balance = 1 AND token IS DISTINCT FROM (SELECT f.token FROM job_fences AS f WHERE f.name = $1 || %s)", table, key)
					if table == "split" {
						text = fmt.Sprintf("SELECT count(*) FROM %s WHERE token NOT IN (0, (SELECT f.token FROM job_fences AS f WHERE f.name = $1 || %s))", table, key)
					}
					require.NoError(t, tx.QueryRow(within(t), text, l.fence.Name).Scan(&wrong))
					require.Zero(t, wrong, "%s: the token of the last write is in the row", c.name)
				}
			} else {
				require.Equal(t, c.code, refusal(t, err).Code, "%s at %s: %v", c.name, level, err)
			}
			require.NoError(t, tx.Rollback(within(t)))
		}
	}
}

// TestGuardRows_AHigherTokenInTheRowOutlivesTheFence: the fence was restored from an older copy, and a holder passes it that is older than
// the last writer of the row.
func TestGuardRows_AHigherTokenInTheRowOutlivesTheFence(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	exec(t, l.conn, "UPDATE job_fences SET token = 8 WHERE name = $1", l.of(2).Name)
	for _, text := range []string{`UPDATE customers SET balance = 1, token = 1 WHERE "the id" = 2`, `DELETE FROM customers WHERE "the id" = 2`} {
		tx, err := l.conn.Begin(within(t))
		require.NoError(t, err)
		require.NoError(t, l.of(2).AdvanceTx(within(t), tx, 8))
		_, err = tx.Exec(within(t), text)
		pg := refusal(t, err)
		require.Equal(t, "LH002", pg.Code)
		require.Contains(t, pg.Message, "token 8 is stale: the row was written with 9")
		require.NoError(t, tx.Rollback(within(t)))
	}
}

// TestGuardRows_ListedAndTakenOff, with what is wrong.
func TestGuardRows_ListedAndTakenOff(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	tx, err := l.conn.Begin(within(t))
	require.NoError(t, err)
	exec(t, tx, "CREATE TABLE later () INHERITS (kin); CREATE TABLE split_2 PARTITION OF split DEFAULT; ALTER TABLE customers DISABLE TRIGGER pglock_guard_rows")
	list := func() map[string]string {
		guards, err := l.fence.GuardsTx(within(t), tx)
		require.NoError(t, err)
		problems := map[string]string{}
		for _, guard := range guards {
			require.True(t, guard.Rows)
			problems[guard.Table[len(guard.Table)-5:]] = guard.Problem
		}
		return problems
	}
	require.Equal(t, map[string]string{
		"omers": "the trigger is disabled: nothing is refused", ".kin": "", "rents": "", "split": "", "lit_1": "",
		"later": "it is a child of a guarded table and has no such guard: guard the parent again",
		"lit_2": "TRUNCATE is not refused: guard the parent again",
	}, trimmed(list()))
	for range 2 {
		require.NoError(t, l.fence.GuardRowsTx(within(t), tx, "customers", "the id", "token"))
		require.NoError(t, l.fence.GuardRowsTx(within(t), tx, "split", "id", "token"))
		require.NoError(t, l.fence.GuardRowsTx(within(t), tx, "parents", "id", "token"))
	}
	for table, problem := range list() {
		require.Empty(t, problem, table)
	}
	for _, table := range []string{"customers", "split", "parents"} {
		require.NoError(t, l.fence.UnguardTx(within(t), tx, table))
	}
	require.Empty(t, list())
	exec(t, tx, `UPDATE customers SET balance = 1; TRUNCATE customers, split, parents`)
	require.NoError(t, tx.Rollback(within(t)))
}

func trimmed(problems map[string]string) map[string]string {
	for table, problem := range problems {
		if table[1:] == ".kin" {
			delete(problems, table)
			problems[".kin"] = problem
		}
	}
	return problems
}

func TestGuardRows_BadInput(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range [][4]string{
		{"customers", "id", "token", "42703"},
		{"customers", "the id", "balance", "42703"},
		{"customers", "token", "token", "42703"},
		{"missing", "id", "token", "42P01"},
		{"job_fences", "name", "token", "42809"},
		{"customers_pkey", "the id", "token", "42809"},
	} {
		err := pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error { return l.fence.GuardRowsTx(within(t), tx, c[0], c[1], c[2]) })
		require.Equal(t, c[3], refusal(t, err).Code, "%v: %v", c, err)
	}
	require.ErrorContains(t, l.fence.GuardRowsTx(within(t), untouchable{}, "t", "", "token"), "cannot be the name of a column")
	require.ErrorContains(t, l.fence.GuardRowsTx(within(t), nil, "t", "id", "token"), "the transaction is nil")
	require.ErrorContains(t, l.fence.GuardRowsSQLTx(within(t), nil, "t", "id", "token"), "the transaction is nil")
}

// TestGuardRows_NoLowerTokenOverwritesAHigherOne: holders of several customers' locks, current and out of date, write their rows, by
// the checks or by saying that they passed, while grants go on. Each write leaves a line in a log, under the row's lock.
func TestGuardRows_NoLowerTokenOverwritesAHigherOne(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LEASEHOLD_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("LEASEHOLD_SEED=%d", seed)
	const customers, workers, rounds = 3, 6, 120
	l := newLedger(t)
	exec(t, l.conn, `DELETE FROM job_fences; ALTER TABLE customers DISABLE TRIGGER ALL; TRUNCATE customers; ALTER TABLE customers ENABLE TRIGGER ALL;
		CREATE TABLE log (seq bigserial PRIMARY KEY, customer int NOT NULL, token bigint NOT NULL)`)
	var current [customers]atomic.Int64
	for c := range customers {
		exec(t, l.conn, "INSERT INTO job_fences VALUES ($1, 1)", l.of(c).Name)
		current[c].Store(1)
		require.NoError(t, pgx.BeginFunc(within(t), l.conn, func(tx pgx.Tx) error {
			if err := l.of(c).AdvanceTx(within(t), tx, 1); err != nil {
				return err
			}
			_, err := tx.Exec(within(t), "INSERT INTO customers VALUES ($1)", c)
			return err
		}))
	}
	config, err := pgxpool.ParseConfig(l.dsn)
	require.NoError(t, err)
	config.MaxConns = workers + 1
	config.ConnConfig.RuntimeParams["search_path"] = quoted(l.schema)
	pool := pgtest.PoolWith(t, config)

	done := make(chan struct{})
	var granter, writers sync.WaitGroup
	granter.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		for {
			c := random.IntN(customers)
			var token int64
			err := pool.QueryRow(t.Context(), "UPDATE job_fences SET token = token + 1 WHERE name = $1 RETURNING token", l.of(c).Name).Scan(&token)
			switch {
			case err == nil:
				current[c].Store(token)
			case outcome(err) != "error 40P01":
				// Who only declares locks the row before the fence, and may meet this UPDATE in a deadlock. That of a real grant does
				// not wait for a fence.
				t.Errorf("grant: %v", err)
				return
			}
			select {
			case <-done:
				return
			case <-time.After(time.Duration(random.IntN(5)) * time.Millisecond):
			}
		}
	})
	var mu sync.Mutex
	outcomes := map[string]int{}
	for w := range workers {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w+1)))
			for range rounds {
				c := random.IntN(customers)
				token := fencing.Token(max(1, current[c].Load()-int64(random.IntN(2))))
				form, level := []string{"share", "advance", "declare", "other"}[random.IntN(4)], levels[random.IntN(len(levels))]
				pause := time.Duration(random.IntN(2)) * time.Millisecond
				err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)}, func(tx pgx.Tx) error {
					f := l.of(c)
					switch form {
					case "declare":
						if err := declare(t.Context(), tx, f, token); err != nil {
							return err
						}
					case "other":
						other := l.of((c + 1) % customers)
						if err := declare(t.Context(), tx, other, fencing.Token(current[(c+1)%customers].Load())); err != nil {
							return err
						}
					default:
						if err := checkTx(t.Context(), tx, form, f, token); err != nil {
							return err
						}
					}
					time.Sleep(pause)
					if _, err := tx.Exec(t.Context(), `UPDATE customers SET balance = balance + 1 WHERE "the id" = $1`, c); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), "INSERT INTO log (customer, token) SELECT \"the id\", token FROM customers WHERE \"the id\" = $1", c)
					return err
				})
				result := outcome(err)
				if isStale(err) {
					result = "stale"
				}
				mu.Lock()
				outcomes[form+" "+result]++
				mu.Unlock()
				switch {
				case form == "other" && result != "error LH001" && result != "error 40001" && result != "error 40P01": // Any in a circle may be the victim.
					t.Errorf("another customer's fence: %v", err)
				case result != "ok" && result != "stale" && result != "error 40001" && result != "error 40P01" && result != "error LH001" && result != "error LH002":
					t.Errorf("%s: %v", form, err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	granter.Wait()
	t.Log(outcomes)
	require.Positive(t, outcomes["declare error LH002"])
	require.Positive(t, outcomes["share ok"])

	rows, err := l.conn.Query(within(t), "SELECT customer, token FROM log ORDER BY seq")
	require.NoError(t, err)
	last, count := map[int]int64{}, map[int]int{}
	var c int
	var token int64
	_, err = pgx.ForEachRow(rows, []any{&c, &token}, func() error {
		require.GreaterOrEqual(t, token, last[c], "customer %d: %d wrote after %d", c, token, last[c])
		last[c], count[c] = token, count[c]+1
		return nil
	})
	require.NoError(t, err)
	for c := range customers {
		var balance int
		require.NoError(t, l.conn.QueryRow(within(t), `SELECT balance FROM customers WHERE "the id" = $1`, c).Scan(&balance))
		require.Equal(t, balance, count[c], "each committed write is in the log")
	}
}
