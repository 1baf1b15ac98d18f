package fencing_test

import (
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

// BenchmarkCheck is a business transaction of one INSERT with each check in front of it, and with none. The clients of
// advance and share use one fence, as the writers of one holder do. Those of strict have a fence each and a new token each
// time: on one fence they would refuse each other.
func BenchmarkCheck(b *testing.B) {
	for _, form := range append([]string{"none"}, forms...) {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("form=%s/clients=%d", form, clients), func(b *testing.B) { benchmarkCheck(b, form, clients) })
		}
	}
}

func benchmarkCheck(b *testing.B, form string, clients int) {
	ctx := b.Context()
	dsn, schema := pgtest.Migrated(b)
	shared := fencing.Fence{Name: "job", Schema: schema}
	setUp := observe(b, dsn)
	_, err := setUp.Exec(ctx, "CREATE TABLE "+quoted(schema)+".writes (note text NOT NULL)")
	require.NoError(b, err)
	require.NoError(b, pgx.BeginFunc(ctx, setUp, func(tx pgx.Tx) error {
		if err := shared.CreateTx(ctx, tx); err != nil {
			return err
		}
		return shared.AdvanceTx(ctx, tx, 1)
	}))

	work := make(chan struct{})
	times := make([][]time.Duration, clients)
	var workers sync.WaitGroup
	for client := range clients {
		conn := observe(b, dsn)
		f, token := shared, fencing.Token(1)
		if form == "strict" {
			f.Name = fmt.Sprint("strict ", client)
			require.NoError(b, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f.CreateTx(ctx, tx) }))
		}
		workers.Go(func() {
			for range work {
				start := time.Now()
				if err := business(ctx, conn, form, f, token); err != nil {
					b.Errorf("client %d: %v", client, err)
				}
				times[client] = append(times[client], time.Since(start))
				if form == "strict" {
					token++
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	workers.Wait()

	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// business is one transaction with a check in front, unless form is none.
func business(ctx context.Context, conn *pgx.Conn, form string, f fencing.Fence, token fencing.Token) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if form != "none" {
			if err := checkTx(ctx, tx, form, f, token); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+quoted(f.Schema)+".writes (note) VALUES ('invoice')")
		return err
	})
}
