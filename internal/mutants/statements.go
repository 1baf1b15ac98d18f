package mutants

import "github.com/leasehold-go/leasehold/internal/history"

// Files of the statements.
const (
	acquireSQL = "pglock/sql/acquire.sql"
	renewSQL   = "pglock/sql/renew.sql"
	releaseSQL = "pglock/sql/release.sql"
	reapSQL    = "pglock/sql/reap.sql"
	raiseSQL   = "pglock/sql/raise.sql"
)

// slowGate is a gate that lets everybody in, after a pause in which what was read before gets old.
var slowGate = Edit{acquireSQL, "pg_try_advisory_xact_lock($4::bigint)", "$4::bigint IS NOT NULL AND pg_sleep(0.01) IS NOT NULL"}

// Texts that several mutants edit.
const (
	renewIdentity = "l.holder = m.holder::uuid\n        AND l.token = m.token"
	renewAlive    = "WHERE l.expires_at > clock_timestamp()"
	fenceRaised   = "token = EXCLUDED.token,\n        raised_at = clock_timestamp()\n    WHERE f.token < EXCLUDED.token"
)

// late are the faults by which a statement arrives when its sender's term is over.
var late = []string{"requests held back", "held back", "stop long", "freeze long"}

// statements are faults in the SQL of leases.
var statements = []Mutant{
	{
		Name:   "renew by name",
		Fault:  "renew looks neither at the holder nor at the token",
		Edits:  []Edit{{renewSQL, renewIdentity, "m.holder IS NOT NULL\n        AND m.token > 0"}},
		Rules:  []string{history.RuleOwnRows},
		Favour: []string{"wait", "hold"},
		Faults: late,
	},
	{
		Name:   "renew without the token",
		Fault:  "renew does not look at the token",
		Edits:  []Edit{{renewSQL, "l.token = m.token", "m.token > 0"}},
		Rules:  []string{history.RuleNoRevival},
		Favour: []string{"revoke", "hold"},
		Faults: []string{"revoke"},
	},
	{
		Name:   "renew what has expired",
		Fault:  "an expired or released lease is renewed back",
		Edits:  []Edit{{renewSQL, renewAlive, "WHERE true"}},
		Rules:  []string{history.RuleNoRevival},
		Favour: []string{"wait", "hold"},
		Faults: late,
	},
	{
		Name:  "renew by name what has expired",
		Fault: "renew looks neither at holder and token nor at the expiry",
		Edits: []Edit{
			{renewSQL, renewIdentity, "m.holder IS NOT NULL\n        AND m.token > 0"},
			{renewSQL, renewAlive, "WHERE true"},
		},
		Rules:  []string{history.RuleOwnRows, history.RuleNoRevival},
		Favour: []string{"wait", "hold"},
		Faults: late,
	},
	{
		Name:  "renew by upsert",
		Fault: "renew is an upsert: it takes the row whoever has it, and makes it when it is gone",
		Edits: []Edit{
			{renewSQL, renewBegin, renewInsert + renewTake},
			{renewSQL, renewEnd, ""},
		},
		Rules:  []string{history.RuleTokensRise, history.RuleOwnRows},
		Favour: []string{"wait", "hold"},
		Faults: late,
	},
	{
		Name:  "renew makes the row again",
		Fault: "renew is an upsert that heeds another holder, but makes the row again when it was deleted",
		Edits: []Edit{
			{renewSQL, renewBegin, renewInsert},
			{renewSQL, renewEnd, "WHERE l.holder = EXCLUDED.holder AND l.token = EXCLUDED.token AND l.expires_at > clock_timestamp()\n"},
		},
		Rules:  []string{history.RuleTokensRise, history.RuleNoOverlap},
		Favour: []string{"prune", "hold"},
		Faults: []string{"requests held back", "held back", "freeze long"},
	},
	{
		Name:  "renew for half of the time",
		Fault: "renewals get half of the time that the client counts on",
		Edits: []Edit{{renewSQL, "interval '1 microsecond'", "interval '0.5 microsecond'"}},
		Rules: []string{history.RuleTrust},
	},
	{
		Name:  "release by name",
		Fault: "release looks at the name only",
		Edits: []Edit{{releaseSQL, "l.holder = $2::text::uuid\n    AND ($3::bigint = 0 OR l.token = $3::bigint)",
			"$2::text <> ''\n    AND $3::bigint >= 0"}},
		Favour: []string{"release late"},
		Rules:  []string{history.RuleOwnRows},
	},
	{
		Name:   "reap by name",
		Fault:  "a waiter that gives up frees the name, whoever holds it",
		Edits:  []Edit{{reapSQL, "l.holder = a.holder::uuid", "a.holder IS NOT NULL"}},
		Favour: []string{"cancelled", "replies dropped"},
		Rules:  []string{history.RuleOwnRows},
	},
	{
		Name:  "release resets the counter",
		Fault: "a release sets the token back to the start",
		Edits: []Edit{{releaseSQL, "SET expires_at = NULL", "SET expires_at = NULL, token = 1"}},
		Rules: []string{history.RuleTokensRise},
	},
	{
		Name:  "release tidies the fence away",
		Fault: "a release deletes the fence, and with the lease pruned the tokens start again",
		Edits: []Edit{{releaseSQL, "setting\n)\nUPDATE", `setting
),
tidied AS (
    DELETE FROM {schema}.job_fences WHERE name = $1::text AND token = $3::bigint
)
UPDATE`}},
		Favour: []string{"release", "prune"},
		Rules:  []string{history.RuleTokensRise},
	},
	{
		Name:  "take over early",
		Fault: "a lease is taken over some milliseconds before it expires, as an allowance for clocks",
		Edits: []Edit{
			{acquireSQL, " AS remaining\n    FROM", " - 60000 AS remaining\n    FROM"},
			{acquireSQL, "OR l.expires_at <= clock_timestamp()", "OR l.expires_at <= clock_timestamp() + interval '60 ms'"},
		},
		Favour: []string{"wait", "crash"},
		Rules:  []string{history.RuleNoOverlap},
	},
	{
		Name:  "acquire at the transaction's start",
		Fault: "acquire reads now(), the start of its transaction, instead of the clock (the gate is open and slow)",
		Edits: []Edit{
			slowGate,
			{acquireSQL, "(SELECT clock_timestamp() AS clock)", "(SELECT now() AS clock)"},
			{acquireSQL,
				"acquired_at = clock_timestamp(),\n        renewed_at = clock_timestamp(),\n        expires_at = clock_timestamp()",
				"acquired_at = now(),\n        renewed_at = now(),\n        expires_at = now()"},
			{acquireSQL, "l.expires_at <= clock_timestamp()", "l.expires_at <= now()"},
		},
		Favour: []string{"try", "release"},
		Rules:  []string{history.RuleNoOverlap, history.RuleTrust},
		Faults: []string{"vacuum full", "delay"},
	},
	{
		Name:  "acquire does not look again",
		Fault: "acquire decides on what it read, and does not look at the expiry again under the row lock (the gate is open and slow)",
		Edits: []Edit{slowGate, {acquireSQL, "WHERE l.expires_at IS NULL\n        OR l.expires_at <= clock_timestamp()", "WHERE true"}},
		Rules: []string{history.RuleNoOverlap},
	},
	{
		Name:  "token stays",
		Fault: "a token does not rise with the term",
		Edits: []Edit{
			{acquireSQL, "greatest(l.token + 1, EXCLUDED.token)", "l.token"},
			{acquireSQL, "f.token < EXCLUDED.token", "true"},
		},
		Rules: []string{history.RuleTokensRise},
	},
	{
		Name:   "token from the lease alone",
		Fault:  "the fence's token is not heeded when the row of the lease is gone",
		Edits:  []Edit{{acquireSQL, "(SELECT token FROM seen), (SELECT token FROM fence), 0) AS", "(SELECT token FROM seen), 0) AS"}},
		Favour: []string{"release", "prune"},
		Rules:  []string{history.RuleTokensRise},
	},
	{
		Name:  "a locked fence counts as none",
		Fault: "a fence that an open transaction keeps locked is taken for one that is not there",
		Edits: []Edit{{acquireSQL, "EXISTS (SELECT FROM fence)\n            OR NOT EXISTS (SELECT FROM {schema}.job_fences WHERE",
			"true OR NOT EXISTS (SELECT FROM {schema}.job_fences WHERE"}},
		Favour: []string{"release", "prune", "stale"},
		Rules:  []string{history.RuleTokensRise},
	},
	{
		Name:  "grant without the fence",
		Fault: "a grant does not raise the fence",
		Edits: []Edit{{acquireSQL, fenceRaised, "token = f.token"}},
		Rules: []string{history.RuleWritesInTurn, history.RuleGrantFences},
	},
	{
		Name:   "grant without the disk",
		Fault:  "the commit of a grant does not wait for the disk where the session does not ask for it",
		Edits:  []Edit{{acquireSQL, "WHEN 'off' THEN", "WHEN 'never' THEN"}},
		Favour: []string{"restart immediate", "try", "release"},
		Rules:  []string{history.RuleConfirmed, history.RuleTokensRise, history.RuleNoOverlap},
		Faults: []string{"restart immediate"},
	},
	{
		Name:  "unlogged leases",
		Fault: "the table of the leases is not logged: a crash of the server empties it",
		Edits: []Edit{
			{"migrations/0001_create_leases.up.sql", "CREATE TABLE IF NOT EXISTS", "CREATE UNLOGGED TABLE IF NOT EXISTS"},
			{"migrations/shape.go", `t.persistence != "p"`, `t.persistence == ""`}, // It would be refused.
		},
		Faults: []string{"restart immediate"},
		Rules:  []string{history.RuleRecord, history.RuleNoOverlap},
		Favour: []string{"try", "wait"},
	},
	{
		Name:  "raise by the snapshot",
		Fault: "a raise of the epoch frees the leases that were held when it began, and not a grant that it waited for",
		Edits: []Edit{{raiseSQL, "    WHERE counted.fences >= 0\n    FOR NO KEY UPDATE OF l\n", "    WHERE counted.fences >= 0\n"}},
		Suite: &Suite{"pglock", "TestRaiseEpoch_FreesAGrantThatItWaitedFor", "pglock.Raise{Base:1024, Leases:1, Fences:1}"},
	},
	{
		Name:  "gate of the session",
		Fault: "the gate is an advisory lock of the session, which stays with the connection in the pool",
		Edits: []Edit{{acquireSQL, "pg_try_advisory_xact_lock($4", "pg_try_advisory_lock($4"}},
		Rules: []string{history.RuleLiveness},
		Calm:  true,
	},
}

// Parts of renew.sql, and what stands there when it is an upsert.
const (
	renewBegin  = "UPDATE {schema}.pglock_leases AS l\nSET\n"
	renewEnd    = "FROM mine\nCROSS JOIN durable\nWHERE l.name = mine.name\n    AND l.holder = mine.holder\n"
	renewInsert = `INSERT INTO {schema}.pglock_leases AS l (name, token, holder, label, acquired_at, renewed_at, expires_at)
SELECT m.name, m.token, m.holder::uuid, current_setting('application_name'), clock_timestamp(), clock_timestamp(),
    clock_timestamp() + make_interval(secs => $4::bigint / 1e6)
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS m (name, holder, token)
CROSS JOIN durable
ON CONFLICT (name) DO UPDATE SET
`
	renewTake = "    token = EXCLUDED.token,\n    holder = EXCLUDED.holder,\n    label = EXCLUDED.label,\n"
)
