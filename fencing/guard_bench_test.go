package fencing_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// A variant is one way of doing the same work. Its rate is reported as a share of that of the first.
type variant struct {
	name string
	work func(ctx context.Context, tx pgx.Tx) error
}

// compare runs the variants in turns, round after round, because the machine is not the same from one second to the next. It
// reports the median over the rounds of the rate as a share of the first variant's in the same round.
func compare(b *testing.B, dsn string, clients, transactions int, commit bool, variants []variant) {
	conns := make([]*pgx.Conn, clients)
	for i := range conns {
		conns[i] = observe(b, dsn)
	}
	shares := make([][]float64, len(variants))
	var first []time.Duration
	for b.Loop() {
		times := make([]time.Duration, len(variants))
		for n := range variants {
			i := n
			if len(first)%2 == 1 {
				i = len(variants) - 1 - n // who comes later finds other caches
			}
			v := variants[i]
			start := time.Now()
			var workers sync.WaitGroup
			for _, conn := range conns {
				workers.Go(func() {
					for range transactions {
						if err := once(b.Context(), conn, commit, v.work); err != nil {
							b.Errorf("%s: %v", v.name, err)
							return
						}
					}
				})
			}
			workers.Wait()
			times[i] = time.Since(start)
		}
		first = append(first, times[0])
		for i := range variants {
			shares[i] = append(shares[i], float64(times[0])/float64(times[i]))
		}
	}
	for i, v := range variants[1:] {
		slices.Sort(shares[i+1])
		b.ReportMetric(shares[i+1][len(shares[i+1])/2], v.name+"/"+variants[0].name)
	}
	slices.Sort(first)
	b.ReportMetric(float64(clients*transactions)/first[len(first)/2].Seconds(), variants[0].name+"-tx/s")
}

func once(ctx context.Context, conn *pgx.Conn, commit bool, work func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := work(ctx, tx); err != nil || !commit {
		return err
	}
	return tx.Commit(ctx)
}

func benchmarkTables(b *testing.B, tables string) (string, fencing.Fence, *pgx.Conn) {
	dsn, schema := pgtest.Migrated(b)
	f := fencing.Fence{Name: "job", Schema: schema}
	conn := observe(b, dsn)
	exec(b, conn, "SET search_path = "+quoted(schema))
	exec(b, conn, tables+"; INSERT INTO job_fences VALUES ('job', 7)")
	return dsn, f, conn
}

// BenchmarkGuard_Transaction is a transaction of one INSERT: as it is, with the shared check, with the shared check as it would be
// without the declaration, and with the check and a guarded table.
func BenchmarkGuard_Transaction(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			dsn, f, conn := benchmarkTables(b, "CREATE TABLE plain (note text); CREATE TABLE guarded (note text)")
			require.NoError(b, pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error { return f.GuardTx(b.Context(), tx, "guarded") }))
			insert := func(ctx context.Context, tx pgx.Tx, table string) error {
				_, err := tx.Exec(ctx, "INSERT INTO "+quoted(f.Schema)+"."+table+" (note) VALUES ('invoice')")
				return err
			}
			undeclared := "SELECT token FROM " + quoted(f.Schema) + ".job_fences WHERE name = $1 AND token <= $2 FOR SHARE"
			compare(b, dsn, clients, 400/clients, true, []variant{
				{"unfenced", func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, "plain") }},
				{"undeclared", func(ctx context.Context, tx pgx.Tx) error {
					var token int64
					if err := tx.QueryRow(ctx, undeclared, f.Name, 7).Scan(&token); err != nil {
						return err
					}
					return insert(ctx, tx, "plain")
				}},
				{"fenced", func(ctx context.Context, tx pgx.Tx) error {
					if err := f.ShareTx(ctx, tx, 7); err != nil {
						return err
					}
					return insert(ctx, tx, "plain")
				}},
				{"guarded", func(ctx context.Context, tx pgx.Tx) error {
					if err := f.ShareTx(ctx, tx, 7); err != nil {
						return err
					}
					return insert(ctx, tx, "guarded")
				}},
			})
		})
	}
}

// BenchmarkGuard_Copy is a COPY of 10,000 rows into a table and into a partitioned one, where each row has to pass the condition of the
// trigger that later partitions inherit.
func BenchmarkGuard_Copy(b *testing.B) {
	var data bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&data, "%d\tinvoice %d of a customer with a name\t%d.25\n", i, i, i)
	}
	for kind, columns := range map[string]string{
		"table":       "(id int, note text, amount numeric)",
		"partitioned": "(id int, note text, amount numeric) PARTITION BY RANGE (id)",
	} {
		b.Run(kind, func(b *testing.B) {
			dsn, f, conn := benchmarkTables(b, "CREATE TABLE plain "+columns+"; CREATE TABLE guarded "+columns)
			if kind == "partitioned" {
				for _, table := range []string{"plain", "guarded"} {
					exec(b, conn, fmt.Sprintf(`CREATE TABLE %[1]s_1 PARTITION OF %[1]s FOR VALUES FROM (0) TO (5000);
						CREATE TABLE %[1]s_2 PARTITION OF %[1]s FOR VALUES FROM (5000) TO (10000)`, table))
				}
			}
			require.NoError(b, pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error { return f.GuardTx(b.Context(), tx, "guarded") }))
			load := func(table string) func(ctx context.Context, tx pgx.Tx) error {
				return func(ctx context.Context, tx pgx.Tx) error {
					if err := f.ShareTx(ctx, tx, 7); err != nil {
						return err
					}
					text := "COPY " + quoted(f.Schema) + "." + table + " FROM STDIN"
					_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(data.Bytes()), text)
					return err
				}
			}
			compare(b, dsn, 1, 1, false, []variant{{"fenced", load("plain")}, {"guarded", load("guarded")}})
		})
	}
}

// BenchmarkGuard_Rows is an UPDATE of one row and one of 10,000, of a plain table and of one with guarded rows.
func BenchmarkGuard_Rows(b *testing.B) {
	for _, rows := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			dsn, f, conn := benchmarkTables(b, "CREATE TABLE plain (customer int, n int, token bigint); CREATE TABLE guarded (LIKE plain)")
			exec(b, conn, "INSERT INTO job_fences VALUES ('customer/1', 7)")
			for _, table := range []string{"plain", "guarded"} {
				exec(b, conn, fmt.Sprintf("INSERT INTO %s SELECT 1, n, 7 FROM generate_series(1, %d) AS n; CREATE INDEX ON %[1]s (n)", table, max(rows, 100)))
			}
			all := fencing.Fence{Name: "customer/", Schema: f.Schema}
			f.Name = "customer/1"
			require.NoError(b, pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error {
				return all.GuardRowsTx(b.Context(), tx, "guarded", "customer", "token")
			}))
			update := func(table string) func(ctx context.Context, tx pgx.Tx) error {
				return func(ctx context.Context, tx pgx.Tx) error {
					if err := f.ShareTx(ctx, tx, 7); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE "+quoted(f.Schema)+"."+table+" SET token = 7 WHERE n <= $1", rows)
					return err
				}
			}
			transactions := 1
			if rows == 1 {
				transactions = 200
			}
			compare(b, dsn, 1, transactions, false, []variant{{"fenced", update("plain")}, {"guarded", update("guarded")}})
		})
	}
}
