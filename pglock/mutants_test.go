package pglock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/faultnet"
	"github.com/leasehold-go/leasehold/internal/history"
	"github.com/leasehold-go/leasehold/internal/pgtest"
	"github.com/leasehold-go/leasehold/internal/pgtest/pgserver"
	"github.com/leasehold-go/leasehold/internal/torture"
	"github.com/leasehold-go/leasehold/migrations"
	"github.com/leasehold-go/leasehold/pglock"
)

// A mutant is this library with a fault put in.
type mutant struct {
	fault string
	// edits are made to the client's statements: of the named one, the text from is replaced by to.
	edits []edit
	// advance and share replace the checks of fenced writes.
	advance, share func(context.Context, pgx.Tx, *pglock.Lease) error
	// favour names operations and faults of the torture that bring the fault to light soon.
	favour []string
	// rules are those of package history of which one must find the fault; without, nothing may be found.
	rules []string
}

type edit struct{ statement, from, to string }

// slowGate is a gate that lets everybody in, after a pause in which what was read before gets old.
var slowGate = edit{"acquire", "pg_try_advisory_xact_lock($4::bigint)", "$4::bigint IS NOT NULL AND pg_sleep(0.01) IS NOT NULL"}

// TestMutants_AreFound has the torture run on the library with one fault after the other put in: a judge that
// finds nothing in them would be worthless. The last is no fault (invariant I7), and nothing may be found.
func TestMutants_AreFound(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	for _, m := range []mutant{
		{
			fault: "acquire does not look at the expiry again under the row lock",
			edits: []edit{slowGate, {"acquire", "WHERE l.expires_at IS NULL\n        OR l.expires_at <= clock_timestamp()", "WHERE true"}},
			rules: []string{history.RuleNoOverlap},
		},
		{
			fault: "a token does not rise with the term",
			edits: []edit{{"acquire", "greatest(l.token + 1, EXCLUDED.token)", "l.token"}, {"acquire", "f.token < EXCLUDED.token", "true"}},
			rules: []string{history.RuleTokensRise},
		},
		{
			fault:  "the fence's token is not heeded when the row of the lease is gone",
			edits:  []edit{{"acquire", "greatest((SELECT token FROM seen), (SELECT token FROM fence), 0)", "greatest((SELECT token FROM seen), 0)"}},
			favour: []string{"release", "prune"},
			rules:  []string{history.RuleTokensRise},
		},
		{
			fault: "a grant does not raise the fence",
			edits: []edit{{"acquire", "token = EXCLUDED.token,\n        raised_at = clock_timestamp()\n    WHERE f.token < EXCLUDED.token", "token = f.token"}},
			rules: []string{history.RuleWritesInTurn},
		},
		{
			fault:  "an expired or released lease is renewed back",
			edits:  []edit{{"renew", "WHERE l.expires_at > clock_timestamp()", ""}},
			favour: []string{"freeze long", "held back"},
			rules:  []string{history.RuleNoRevival},
		},
		{
			fault:  "renew looks at the name only",
			edits:  []edit{{"renew", "AND l.holder = m.holder::uuid\n        AND l.token = m.token", "AND m.holder IS NOT NULL AND m.token > 0"}},
			favour: []string{"freeze long", "held back", "wait"},
			rules:  []string{history.RuleOwnRows},
		},
		{
			fault: "renew looks neither at holder and token nor at the expiry",
			edits: []edit{
				{"renew", "AND l.holder = m.holder::uuid\n        AND l.token = m.token", "AND m.holder IS NOT NULL AND m.token > 0"},
				{"renew", "WHERE l.expires_at > clock_timestamp()", ""},
			},
			favour: []string{"freeze long", "held back"},
			rules:  []string{history.RuleOwnRows, history.RuleNoRevival},
		},
		{
			fault: "renewals get half of the time that the client counts on",
			edits: []edit{{"renew", "interval '1 microsecond'", "interval '0.5 microsecond'"}},
			rules: []string{history.RuleTrust},
		},
		{
			fault: "release looks at the name only",
			edits: []edit{{"release", "AND l.holder = $2::text::uuid\n    AND ($3::bigint = 0 OR l.token = $3::bigint)", "AND $2::text <> '' AND $3::bigint >= 0"}},
			rules: []string{history.RuleOwnRows},
		},
		{
			fault:   "the fence is checked by a plain read",
			advance: plainRead,
			share:   plainRead,
			favour:  []string{"release", "stale"},
			rules:   []string{history.RuleWritesInTurn},
		},
		{
			fault: "the gate is always open, and slow",
			edits: []edit{slowGate},
		},
	} {
		t.Run(strings.ReplaceAll(m.fault, " ", "_"), func(t *testing.T) {
			started := time.Now()
			found := m.torture(t, server)
			t.Logf("%d violations after %v", len(found), time.Since(started).Round(time.Second))
			if m.rules == nil {
				require.Empty(t, found)
			} else {
				require.True(t, slices.ContainsFunc(found, m.caught), "found only %v", found)
			}
		})
	}
}

// plainRead is check-then-act: nothing keeps the fence as it was read.
func plainRead(ctx context.Context, tx pgx.Tx, l *pglock.Lease) error {
	var fence fencing.Token
	table := pgx.Identifier{l.Fence().Schema, "job_fences"}.Sanitize()
	if err := tx.QueryRow(ctx, "SELECT token FROM "+table+" WHERE name = $1", l.Name()).Scan(&fence); err != nil {
		return err
	}
	if l.Token() < fence {
		return &fencing.StaleError{Name: l.Name(), Token: l.Token(), Fence: fence}
	}
	return nil
}

func (m mutant) caught(v history.Violation) bool { return slices.Contains(m.rules, v.Rule) }

// torture runs until the fault is found, or for a while for the mutant that has none.
func (m mutant) torture(t *testing.T, server *pgserver.Server) []history.Violation {
	t.Helper()
	schema := pgtest.SchemaOn(t, server.DSN())
	require.NoError(t, migrations.Up(t.Context(), migrations.URL(server.DSN()), migrations.Options{Schema: schema}))
	m.requireEdits(t, server.DSN(), schema)
	options := torture.Options{
		Seed:     1,
		Duration: 2 * time.Minute, // Mostly seconds; at times half a minute, for a fault that shows only when several things meet.
		DSN:      server.DSN(),
		Schema:   schema,
		Server:   server,
		Proxy:    func(dsn string) (*faultnet.Proxy, string) { return faultnet.ListenDSN(t, dsn) },
		Advance:  m.advance,
		Share:    m.share,
		Favour:   m.favour,
		MinTTL:   300 * time.Millisecond,
		MaxTTL:   500 * time.Millisecond,
		Prepare:  func(ctx context.Context, c *pglock.Client) error { return m.alter(ctx, c) },
		Enough:   func(r *torture.Report) bool { return slices.ContainsFunc(history.Check(r.Events), m.caught) },
	}
	if m.rules == nil {
		options.Duration, options.Enough = 5*time.Second, nil
	}
	report, err := torture.Run(t.Context(), options)
	require.NoError(t, err)
	require.Positive(t, report.Counts["grants"])
	return history.Check(report.Events)
}

// requireEdits fails at once if a statement has changed so that the fault cannot be put in as it stands here.
func (m mutant) requireEdits(t *testing.T, dsn, schema string) {
	t.Helper()
	c, err := pglock.New(pgtest.Pool(t, dsn), pglock.Config{Schema: schema})
	require.NoError(t, err)
	require.NoError(t, m.alter(t.Context(), c))
	require.NoError(t, c.Close(t.Context()))
}

// alter puts the fault into a client. It fails while the client cannot look at the server.
func (m mutant) alter(ctx context.Context, c *pglock.Client) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	for _, e := range m.edits {
		if !pglock.Alter(c, e.statement, e.from, e.to) {
			return errors.New(e.statement + ".sql has no such text: " + e.from)
		}
	}
	return nil
}
