package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/pglock"
)

// ShedLock 231: with a skew of three minutes the second node saw the first one's lock as expired and ran too.
//
// The clock of a Go program cannot be shifted from outside, that of a server can: only the difference matters. That two
// clients with two clocks agree follows from the first test: nothing that a client's clock says reaches the server.

// A parameterTracer keeps the parameters of all statements of a pool, and of the connection for renewals, which is opened
// with the pool's settings.
type parameterTracer struct {
	mu         sync.Mutex
	statements map[string]int // by the name in their first comment
	parameters []any
}

func (p *parameterTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, found := strings.CutPrefix(data.SQL, "/* pglock "); found {
		name, _, _ = strings.Cut(name, " ")
		p.statements[name]++
	}
	p.parameters = append(p.parameters, data.Args...)
	return ctx
}

func (p *parameterTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (p *parameterTracer) sent(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements[name] > 0
}

// tellsTime reports whether a parameter is a point in time near now, in any form that the database could read as one.
func tellsTime(parameter any) bool {
	near := func(seconds float64) bool {
		for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
			for _, epoch := range []time.Time{time.Unix(0, 0), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)} {
				if since := time.Since(epoch).Seconds() * unit; seconds > since-86400*unit && seconds < since+86400*unit {
					return true
				}
			}
		}
		return false
	}
	switch v := parameter.(type) {
	case time.Time, *time.Time, pgtype.Timestamptz, pgtype.Timestamp, pgtype.Date:
		return true
	case int64:
		return near(float64(v))
	case int:
		return near(float64(v))
	case float64:
		return near(v)
	case []int64:
		for _, one := range v {
			if near(float64(one)) {
				return true
			}
		}
	case string:
		number, err := strconv.ParseFloat(v, 64)
		return err == nil && near(number) || strings.Contains(v, time.Now().UTC().Format("2006-01-02"))
	case []string:
		for _, one := range v {
			if tellsTime(one) {
				return true
			}
		}
	}
	return false
}

func TestCase11_NoTimeOfAClientCrossesTheWire(t *testing.T) {
	t.Parallel()
	for _, parameter := range []any{time.Now(), time.Now().UnixMilli(), time.Now().Format(time.RFC3339), []int64{time.Now().UnixMicro()}} {
		require.True(t, tellsTime(parameter), "the check sees %v", parameter)
	}
	p := install(t)
	tracer := &parameterTracer{statements: map[string]int{}}
	traced := func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }
	config := pglock.Config{Label: "a", TTL: 5 * time.Second, RenewInterval: 50 * time.Millisecond, PollInterval: 50 * time.Millisecond}
	a, b := p.client(t, config, traced), p.client(t, config, traced)

	lease := take(t, a, "n")
	held(t, b, "n")
	waiting, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(waiting, "n")
	require.ErrorIs(t, err, pglock.ErrNotAcquired)
	p.renewedAfter(t, "n", p.now(t))
	p.exec(t, "UPDATE %s.pglock_leases SET expires_at = clock_timestamp() - interval '1 second'")
	lost(t, lease)
	next := takeSoon(t, b, "n")
	require.NoError(t, next.Release(t.Context()))

	for _, name := range []string{"identify", "enter", "acquire", "renew", "inspect", "release"} {
		require.True(t, tracer.sent(name), name)
	}
	tracer.mu.Lock()
	defer tracer.mu.Unlock()
	for _, parameter := range tracer.parameters {
		require.False(t, tellsTime(parameter), "%v", parameter)
	}
}

func TestCase11_ClientsAnHourBesideTheServerNeverOverlap(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			const ttl = time.Second
			p := installOn(t, skewedServer(t, skew))
			require.InDelta(t, skew.Seconds(), time.Until(p.now(t)).Seconds(), 60, "the server's clock is another")
			p.watch(t)
			config := pglock.Config{TTL: ttl, PollInterval: 50 * time.Millisecond}

			// Some holders vanish, so that expiries decide as well as releases.
			proxy, dsn := faultnet.ListenDSN(t, p.dsn)
			var inside believers
			var taken atomic.Int64
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var group sync.WaitGroup
			for i := range 4 {
				c := p.client(t, config)
				group.Go(func() {
					for ctx.Err() == nil {
						err := c.Do(ctx, "n", func(working context.Context, lease *pglock.Lease) error {
							defer inside.enter(t, lease)()
							taken.Add(1)
							var one int
							return p.admin.QueryRow(context.WithoutCancel(working), "SELECT 1 FROM pg_sleep(0.05)").Scan(&one)
						})
						if err != nil && ctx.Err() == nil && !errors.Is(err, pglock.ErrLost) {
							t.Errorf("client %d: %v", i, err)
						}
					}
				})
			}
			eager := config
			eager.PollInterval = 2 * time.Millisecond // Nobody is served in order of arrival.
			for range 3 {
				lease := takeSoon(t, p.through(dsn).client(t, eager), "n")
				proxy.Set(faultnet.BlackHole())
				lost(t, lease)
				proxy.Set(faultnet.Pass())
			}
			more := taken.Load() + 5
			soon(t, func() bool { return taken.Load() > more }, "grants go on")
			cancel()
			group.Wait()

			t.Logf("%d terms", p.terms(t, "n"))
			p.inTurn(t)
			p.expiriesAre(t, ttl)

			// A holder keeps its lease beyond the TTL: the renewals are by the same clock.
			lease := takeSoon(t, p.client(t, config), "kept")
			acquired := value[time.Time](t, p, "SELECT acquired_at FROM %s.pglock_leases WHERE name = 'kept'")
			p.renewedAfter(t, "kept", acquired.Add(2*ttl))
			require.NoError(t, lease.Err())
			p.expiriesAre(t, ttl)
		})
	}
}

// skewedServer starts a server whose clock is beside ours and returns its connection string. It runs in another process,
// because the environment says which programs a server is started from.
func skewedServer(t *testing.T, skew time.Duration) string {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NoError(t, err)
	if len(libraries) == 0 {
		pgtest.Skip(t, "libfaketime is not installed")
	}
	programs := programsOf(t)
	// The server's user has to reach it, so not t.TempDir.
	dir, err := os.MkdirTemp("", "leasehold-clock-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	for name, environment := range map[string]string{
		"initdb":   "",
		"postgres": fmt.Sprintf("LD_PRELOAD=%s FAKETIME=%+ds DONT_FAKE_MONOTONIC=1 ", libraries[0], int(skew.Seconds())),
	} {
		script := fmt.Sprintf("#!/bin/sh\n%sexec %s/%s \"$@\"\n", environment, programs, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	server := start(t, "server", "LEASEHOLD_PG_BIN="+dir)
	return server.line(t, "dsn ")
}

// roleServer runs a server until the test ends.
func roleServer() int {
	server, err := pgserver.Start(context.Background(), pgserver.Options{Private: true})
	if err != nil {
		return failed(err)
	}
	orphaned = func() { _ = server.Close() }
	say("dsn %s", server.DSN())
	select {} // Until play sees the end of the test.
}
