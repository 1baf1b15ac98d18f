package fencing_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/fencing"
	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// TestScripts runs each interleaving of testdata with both drivers. testdata/README.md has the language.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		for _, driver := range drivers {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+driver, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				steps := parseScript(t, string(text))
				require.Equal(t, format(steps, want), format(steps, newStage(t, driver).run(steps)))
			})
		}
	}
}

// A step is one line of a script: a session does something, or what it was waiting for ends.
type step struct {
	line    int
	session string
	command string // empty: the waiting command ends
	expect  string
}

func parseScript(t *testing.T, text string) (steps []step) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, expect, _ := strings.Cut(line, " -> ")
		name, command, _ := strings.Cut(strings.TrimSpace(left), ":")
		s := step{line: i + 1, session: name, command: strings.TrimSpace(command), expect: strings.TrimSpace(expect)}
		require.Len(t, name, 1, "line %d: %s", s.line, line)
		if s.expect == "" {
			s.expect = "ok"
		}
		steps = append(steps, s)
	}
	return steps
}

func want(s step) string { return s.expect }

// format writes steps with their results, so that a difference is shown in place.
func format(steps []step, result func(step) string) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%3d %s %-40s -> %s\n", s.line, s.session, s.command, result(s))
	}
	return b.String()
}

// A stage is where a script is played: a schema and the sessions.
type stage struct {
	t                   *testing.T
	dsn, schema, driver string
	observer            *pgx.Conn
	actors              map[string]*actor
	acquire             string
}

// An actor is a session with its process and the command that it is still waiting in.
type actor struct {
	session
	pid     int32
	pending chan string
}

func newStage(t *testing.T, driver string) *stage {
	t.Helper()
	dsn, schema := pgtest.Migrated(t)
	g := &stage{t: t, dsn: dsn, schema: schema, driver: driver, observer: observe(t, dsn), actors: map[string]*actor{}}
	statement := func(name string) string {
		text, err := os.ReadFile("../pglock/sql/" + name + ".sql")
		require.NoError(t, err)
		return strings.ReplaceAll(strings.TrimSpace(string(text)), "{schema}", quoted(schema))
	}
	g.acquire = statement("acquire")
	for _, text := range []string{
		statement("enter"),
		"CREATE TABLE " + quoted(schema) + ".writes (note text NOT NULL)",
		"CREATE TABLE " + quoted(schema) + ".guarded (note text NOT NULL)",
		"CREATE TABLE " + quoted(schema) + ".invoices (job text NOT NULL REFERENCES " + quoted(schema) + ".job_fences (name))",
	} {
		_, err := g.observer.Exec(within(t), text)
		require.NoError(t, err)
	}
	return g
}

// run plays the steps, to the first that does not go as written, and returns what happened at each.
func (g *stage) run(steps []step) func(step) string {
	results := map[int]string{}
	result := func(s step) string { return cmp.Or(results[s.line], "not played") }
	for i, s := range steps {
		if s.command == "" {
			continue // done with the step before
		}
		results[s.line] = g.play(s)
		// A commit may let others go on: those of the lines that follow, and nobody else.
		woken := map[string]bool{}
		for _, next := range steps[i+1:] {
			if next.command != "" {
				break
			}
			woken[next.session] = true
			if results[next.line] = g.finish(next.session); results[next.line] != next.expect {
				return result
			}
		}
		for name, a := range g.actors {
			if a.pending != nil && !woken[name] && !untilBlockedOr(g.t, g.observer, a.pid, a.pending) {
				results[s.line] += "; " + name + " ends: " + g.finish(name)
			}
		}
		if results[s.line] != s.expect {
			return result
		}
	}
	for name, a := range g.actors {
		require.Nil(g.t, a.pending, "%s is still waiting at the end", name)
	}
	return result
}

// play does one command. The script decides whether it may wait: then it has to.
func (g *stage) play(s step) string {
	a := g.actors[s.session]
	if a == nil {
		a = &actor{}
		a.session, a.pid = connect(g.t, g.driver, g.dsn)
		g.actors[s.session] = a
	}
	require.Nil(g.t, a.pending, "line %d: %s is still waiting", s.line, s.session)
	a.pending = make(chan string, 1)
	ctx := within(g.t)
	go func(pending chan<- string) { pending <- g.do(ctx, a, s.command) }(a.pending)
	if s.expect == "waits" && untilBlockedOr(g.t, g.observer, a.pid, a.pending) {
		return "waits"
	}
	return g.finish(s.session)
}

// finish is the result of the command that a session is in.
func (g *stage) finish(name string) string {
	a := g.actors[name]
	require.NotNil(g.t, a, "no session %s", name)
	require.NotNil(g.t, a.pending, "%s is not waiting", name)
	result := <-a.pending // ends at the latest with the context of the command
	a.pending = nil
	return result
}

// do is the language of the scripts.
func (g *stage) do(ctx context.Context, a *actor, command string) string {
	verb, rest, _ := strings.Cut(command, " ")
	schema := quoted(g.schema)
	read := func(text string, args ...any) string {
		value := "none"
		if err := a.scan(ctx, []any{&value}, text, args...); err != nil {
			return outcome(err)
		}
		return value
	}
	exec := func(text string, args ...any) string { return outcome(a.scan(ctx, nil, text, args...)) }
	switch verb {
	case "begin":
		if rest == "" {
			rest = "read committed"
		}
		return outcome(a.begin(g.t.Context(), rest)) // for database/sql it is the transaction's context
	case "commit":
		return outcome(a.commit(ctx))
	case "rollback":
		if rest != "" { // to a savepoint
			return exec(command)
		}
		return outcome(a.rollback(ctx))
	case "savepoint", "release", "set":
		return exec(command)
	case "advance", "strict", "share", "declare":
		if !a.inTx() {
			return errNoTx.Error()
		}
		var name string
		var token fencing.Token
		if _, err := fmt.Sscan(rest, &name, &token); err != nil {
			return err.Error()
		}
		f := fencing.Fence{Name: name, Schema: g.schema}
		if verb == "declare" {
			var declared string
			return outcome(a.scan(ctx, []any{&declared}, declareSQL, f.Schema, f.Name, int64(token)))
		}
		return outcome(a.check(ctx, verb, f, token))
	case "guard":
		return exec("SELECT FROM "+schema+".pglock_guard_table($1::text::regclass, $2)", schema+".guarded", rest)
	case "guarded":
		return exec("INSERT INTO "+schema+".guarded (note) VALUES ($1::text)", rest)
	case "create":
		return outcome(a.create(ctx, fencing.Fence{Name: rest, Schema: g.schema}))
	case "select": // the check that is none
		return read("SELECT token::text FROM "+schema+".job_fences WHERE name = $1::text", rest)
	case "key-share": // neither is this
		return read("SELECT token::text FROM "+schema+".job_fences WHERE name = $1::text FOR KEY SHARE", rest)
	case "delete":
		return exec("DELETE FROM "+schema+".job_fences WHERE name = $1::text", rest)
	case "write":
		return exec("INSERT INTO "+schema+".writes (note) VALUES ($1::text)", rest)
	case "invoice":
		return exec("INSERT INTO "+schema+".invoices (job) VALUES ($1::text)", rest)
	case "kept":
		return read("SELECT coalesce(string_agg(note, ', ' ORDER BY note), 'nothing') FROM " + schema + ".guarded")
	case "written":
		return read("SELECT coalesce(string_agg(note, ', ' ORDER BY note), 'nothing') FROM " + schema + ".writes")
	case "expire":
		return exec("UPDATE "+schema+".pglock_leases SET expires_at = clock_timestamp() - interval '1 s' WHERE name = $1::text", rest)
	case "acquire":
		return g.doAcquire(ctx, a, rest)
	}
	return "no such command: " + command
}

// doAcquire is one attempt with the statement of package pglock. Where nobody has the name, the token says nothing.
func (g *stage) doAcquire(ctx context.Context, a *actor, name string) string {
	var result, label, isolation string
	var token, remaining, before int64
	var tookOver bool
	dest := []any{&result, &token, &remaining, &label, &tookOver, &before, &isolation}
	ttl := int64(60_000_000)
	if err := a.scan(ctx, dest, g.acquire, name, uuid(), ttl, g.gate(name), "test", "{}"); err != nil {
		return outcome(err)
	}
	if result == "granted" || result == "held" {
		return fmt.Sprintf("%s %d", result, token)
	}
	return result
}

// gate is the key of the advisory lock in front of a name. Only its being the same for all is needed here.
func (g *stage) gate(name string) int64 {
	sum := sha256.Sum256([]byte("pglock gate 1\x00" + g.schema + "\x00" + name + "\x00"))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
