package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns a pool of at most four connections, unless the DSN says pool_max_conns, closed at the end of the test.
// It connects when it is first used.
func Pool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return PoolWith(t, config)
}

// PoolWith is [Pool] for a configuration of the test's own, with a dialer that fails, say.
func PoolWith(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	// The context ends nothing later on; t.Context would do as well.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// closePool does not wait for ever: a test that failed may not have given a connection back.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Errorf("pgtest: %d connections were not given back to the pool", pool.Stat().AcquiredConns())
	}
}
