package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/pglock"
)

// What administrators set to protect a server ends nothing but a question, which is asked again.
func TestClient_WorksWithHardenedSettings(t *testing.T) {
	t.Parallel()
	settings := map[string]string{
		"default_transaction_isolation":       "serializable",
		"statement_timeout":                   "500ms",
		"lock_timeout":                        "100ms",
		"idle_in_transaction_session_timeout": "1s",
		"log_min_messages":                    "error",
	}
	version := value[int](t, install(t), "SELECT current_setting('server_version_num')::int")
	if version >= 140000 {
		settings["idle_session_timeout"] = "300ms" // Cuts the renewer's connection between two renewals.
	}
	if version >= 170000 {
		settings["transaction_timeout"] = "1s"
	}
	in := installOn(t, pgtest.Private(t, settings).DSN())
	config := pglock.Config{TTL: 4 * time.Second, RenewInterval: time.Second, RequestTimeout: 2 * time.Second, PollInterval: 20 * time.Millisecond}
	holder := in.client(t, config)
	var held []*pglock.Lease
	for i := range 20 {
		held = append(held, take(t, holder, fmt.Sprint("held", i)))
	}

	// Under contention 40001 and 40P01 reach nobody, and each critical section is alone.
	inside, entered := 0, 0
	var mu sync.Mutex
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for range 10 {
		c := in.client(t, config)
		group.Go(func() {
			for ctx.Err() == nil {
				err := c.Do(ctx, "hot", func(context.Context, *pglock.Lease) error {
					mu.Lock()
					inside++
					entered++
					alone := inside == 1
					mu.Unlock()
					if !alone {
						t.Error("two holders")
					}
					mu.Lock()
					inside--
					mu.Unlock()
					return nil
				})
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Greater(t, entered, 3)
	for _, l := range held {
		require.NoError(t, l.Err(), "held for 5 s, renewed over connections that were cut")
	}
	require.Zero(t, value[int](t, in, `SELECT count(*) FROM pg_stat_activity
		WHERE state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '1 second'`))
}
