package mutants

import "github.com/leasehold-go/leasehold/internal/history"

// Files of the fences.
const (
	advanceSQL = "fencing/sql/advance.sql"
	shareSQL   = "fencing/sql/share.sql"
	fenceGo    = "fencing/fence.go"
	runGo      = "fencing/run.go"
)

// fences are faults in the checks of fenced writes.
var fences = []Mutant{
	{
		Name:  "advance by a plain read",
		Fault: "the exclusive check reads the fence and locks nothing",
		Edits: []Edit{{advanceSQL, `UPDATE {schema}.job_fences AS f
    SET
        token = $2::bigint,
        raised_at = clock_timestamp()
    WHERE f.name = $1::text
        AND f.token <= $2::bigint
    RETURNING f.token`, `SELECT f.token
    FROM {schema}.job_fences AS f
    WHERE f.name = $1::text
        AND f.token <= $2::bigint`}},
		Favour: []string{"release", "stale", "advance"},
		Rules:  []string{history.RuleWritesInTurn},
	},
	{
		Name:   "share by a plain read",
		Fault:  "the shared check reads the fence and locks nothing",
		Edits:  []Edit{{shareSQL, "\n    FOR SHARE\n)", "\n)"}},
		Favour: []string{"release", "stale", "share"},
		Rules:  []string{history.RuleWritesInTurn},
	},
	{
		Name:   "share by a key lock",
		Fault:  "the shared check locks FOR KEY SHARE, which an UPDATE of the token does not mind",
		Edits:  []Edit{{shareSQL, "\n    FOR SHARE\n)", "\n    FOR KEY SHARE\n)"}},
		Favour: []string{"release", "stale", "share"},
		Rules:  []string{history.RuleWritesInTurn},
	},
	{
		Name:   "advance without a condition",
		Fault:  "the exclusive check sets the fence whatever it was",
		Edits:  []Edit{{advanceSQL, "\n        AND f.token <= $2::bigint", "\n        AND $2::bigint > 0"}},
		Favour: []string{"stale"},
		Rules:  []string{history.RuleWritesInTurn, history.RuleTokensRise},
	},
	{
		Name:  "no row passes",
		Fault: "a check that locked no row counts as passed",
		Edits: []Edit{{fenceGo, "if !errors.Is(err, sql.ErrNoRows) {\n\t\treturn 0, f.explain(o, err)\n\t}",
			"if errors.Is(err, sql.ErrNoRows) {\n\t\treturn token, nil\n\t}"}},
		Favour: []string{"stale"},
		Rules:  []string{history.RuleWritesInTurn},
	},
	{
		Name:  "run repeats what is unknown",
		Fault: "Fence.Run makes a transaction again whose commit is unknown",
		Edits: []Edit{
			{runGo, "errors.As(err, &unknown) || errors.Is(err, errEnded)", "errors.Is(err, errEnded)"},
			{runGo, "return state == stateSerialization ||", "return errors.As(err, &unknown) || state == stateSerialization ||"},
		},
		Rules:  []string{history.RuleConfirmed},
		Favour: []string{"run"},
		Faults: []string{"reset after"},
	},
}
