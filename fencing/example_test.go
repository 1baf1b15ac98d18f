package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// A holder with token 7 is paused while 8 is granted. Its next transaction is refused, and leaves nothing.
func ExampleFence_AdvanceTx() {
	ctx := context.Background()
	pool, schema, end := openExample(ctx)
	defer end()

	fence := fencing.Fence{Name: "invoice-job", Schema: schema}
	invoice := func(token fencing.Token, number string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := fence.AdvanceTx(ctx, tx, token); err != nil {
				return err // and BeginFunc rolls back
			}
			_, err := tx.Exec(ctx, "INSERT INTO invoices (number) VALUES ($1)", number)
			return err
		})
	}

	fmt.Println(invoice(7, "2026-0001"))
	fmt.Println(invoice(8, "2026-0002"))
	err := invoice(7, "2026-0003")
	fmt.Println(errors.Is(err, fencing.ErrStale), err)

	rows, _ := pool.Query(ctx, "SELECT number FROM invoices ORDER BY number")
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	fmt.Println(numbers, err)
	// Output:
	// <nil>
	// <nil>
	// true fencing: token 7 for "invoice-job" is stale: the fence is at 8
	// [2026-0001 2026-0002] <nil>
}

// One transaction a token: the fence of the lease keeps the holder before out, a fence of the run's own keeps this one from
// writing twice.
func ExampleFence_AdvanceStrictTx() {
	ctx := context.Background()
	pool, schema, end := openExample(ctx)
	defer end()

	lease := fencing.Fence{Name: "invoice-job", Schema: schema}
	once := fencing.Fence{Name: "invoice-job/mail", Schema: schema}
	run := func(token fencing.Token) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := lease.AdvanceTx(ctx, tx, token); err != nil {
				return err
			}
			return once.AdvanceStrictTx(ctx, tx, token)
		})
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return once.CreateTx(ctx, tx) }); err != nil {
		log.Fatal(err)
	}

	fmt.Println(run(7))
	fmt.Println(run(7))
	// Output:
	// <nil>
	// fencing: token 7 for "invoice-job/mail" is stale: it was used before, and this check passes it once
}

// exampleTest is what pgtest needs of a test where there is none.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (e *exampleTest) Helper()                           {}
func (e *exampleTest) Errorf(format string, args ...any) { log.Fatalf(format, args...) }
func (e *exampleTest) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (e *exampleTest) Cleanup(f func())                  { e.cleanups = append(e.cleanups, f) }

// openExample gives an example a pool that finds its tables without their schema, where job_fences has a row invoice-job.
func openExample(ctx context.Context) (pool *pgxpool.Pool, schema string, end func()) {
	e := &exampleTest{}
	dsn, schema := pgtest.Migrated(e)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		log.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = quoted(schema)
	pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	if _, err = pool.Exec(ctx, "CREATE TABLE invoices (number text PRIMARY KEY); INSERT INTO job_fences VALUES ('invoice-job', 0)"); err != nil {
		log.Fatal(err)
	}
	return pool, schema, func() {
		pool.Close()
		for i := range e.cleanups {
			e.cleanups[len(e.cleanups)-1-i]()
		}
	}
}
