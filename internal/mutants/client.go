package mutants

import "github.com/leasehold-go/leasehold/internal/history"

// Files of the client.
const (
	acquireGo = "pglock/acquire.go"
	askGo     = "pglock/ask.go"
	leaseGo   = "pglock/lease.go"
	releaseGo = "pglock/release.go"
	renewGo   = "pglock/renew.go"
	timeGo    = "GOROOT/time/time.go"
)

// wallSteps has the wall clock of the process go back by an hour and forth again every 0.3 s, as an administrator or a time
// daemon may set it. The monotonic clock stays.
var wallSteps = Edit{timeGo, "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", `func Now() Time {
	sec, nsec, mono := runtimeNow()
	if mono/300_000_000%2 == 1 {
		sec -= 3600
	}
`}

// client are faults in the Go of leases.
var client = []Mutant{
	{
		Name:   "trust from the reply of a renewal",
		Fault:  "a renewal is trusted from when its reply came, not from when it was sent",
		Edits:  []Edit{{renewGo, "l.renewed(sent, r.trust)", "l.renewed(sent.Add(time.Since(sent)), r.trust)"}},
		Rules:  []string{history.RuleTrust},
		Favour: []string{"hold"},
		Faults: []string{"replies held back", "held back", "delay"},
	},
	{
		Name:   "trust from the reply of a grant",
		Fault:  "a grant is trusted from when its reply came",
		Edits:  []Edit{{acquireGo, "until := sent.Add(", "until := time.Now().Add("}},
		Rules:  []string{history.RuleTrust},
		Favour: []string{"try", "release"},
		Faults: []string{"replies held back", "held back", "delay"},
	},
	{
		Name:  "trust by the wall clock",
		Fault: "trust ends by the wall clock (which is set back and forth)",
		Edits: []Edit{wallSteps, {renewGo, "sent := time.Now()", "sent := time.Now().Round(0)"}},
		Rules: []string{history.RuleTrust},
		Slow:  true,
	},
	{
		Name:  "no margin",
		Fault: "the margin is not kept",
		Edits: []Edit{{renewGo, "config.TTL - config.Margin", "config.TTL"}},
		Rules: []string{history.RuleTrust},
	},
	{
		Name:   "errors count as renewals",
		Fault:  "a renewal that failed counts as one that succeeded",
		Edits:  []Edit{{renewGo, "l.doubted(v.err)", "l.doubted(v.err)\n\t\t\tl.renewed(sent, r.trust)"}},
		Favour: []string{"black hole", "refused", "freeze long"},
		Rules:  []string{history.RuleTrust},
	},
	{
		Name:   "no rows count as renewed",
		Fault:  "a renewal that changed no row counts as one that did",
		Edits:  []Edit{{askGo, "len(doubtful) == 0", "len(doubtful) >= 0"}},
		Rules:  []string{history.RuleTrust},
		Favour: []string{"hold", "try"},
		Faults: []string{"revoke", "raise epoch"},
	},
	{
		Name:  "one row counts for all",
		Fault: "a renewal that changed one row counts for all leases of the client",
		Edits: []Edit{{askGo, "if !renewed[l.holder] {", "if len(done) == 0 && !renewed[l.holder] {"},
			{askGo, "case renewed[l.holder]:", "case len(done) > 0:"}},
		Rules:  []string{history.RuleTrust},
		Favour: []string{"hold", "try"},
		Faults: []string{"revoke", "raise epoch"},
	},
	{
		Name:  "an answer alone ends trust",
		Fault: "while no answer comes, the lease does not end",
		Edits: []Edit{
			{leaseGo, "l.end, l.end == nil && !time.Now().Before(l.trusted)", "l.end, false"},
			{leaseGo, "time.AfterFunc(time.Until(until), l.expire)", "time.AfterFunc(1<<62, l.expire)"},
			{leaseGo, "l.expiry.Reset(time.Until(until))", "l.expiry.Reset(1 << 62)"},
		},
		Favour: []string{"black hole", "refused", "freeze long"},
		Rules:  []string{history.RuleTrust},
	},
	{
		Name:   "context lives on",
		Fault:  "the lease's context is not cancelled at a loss",
		Edits:  []Edit{{leaseGo, "l.cancel(cause)", "if _, loss := cause.(*LostError); !loss {\n\t\tl.cancel(cause)\n\t}"}},
		Favour: []string{"black hole", "refused", "freeze long"},
		Rules:  []string{history.RuleTrust},
	},
	{
		Name:  "found is granted in full",
		Fault: "a retry that finds its earlier grant counts on the whole TTL",
		Edits: []Edit{{acquireGo, "case row.Outcome == \"found\":", `case row.Outcome == "found":
			row.Outcome, row.Remaining = "granted", c.config.TTL.Microseconds()
			return row, sent, nil
		case false:`}},
		Rules:  []string{history.RuleTrust},
		Favour: []string{"wait", "release"},
		Faults: []string{"replies dropped", "reset after", "replies held back"},
	},
	{
		Name:  "one identity for all",
		Fault: "the holder's id is that of the host: all clients have the same",
		Edits: []Edit{{acquireGo, "holder: newHolder()}, nil", "holder: \"00000000-0000-4000-8000-000000000001\"}, nil"}},
		Rules: []string{history.RuleConfirmed, history.RuleOwnRows},
	},
	{
		Name:  "one identity for a client",
		Fault: "the holder's id is that of the client: what it holds is granted to it again",
		Edits: []Edit{{acquireGo, "holder: newHolder()}, nil", `holder: fmt.Sprintf("00000000-0000-4000-8000-%012x",
		uint64(gateKey("holder", c.config.Label))>>16)}, nil`}},
		Rules: []string{history.RuleConfirmed, history.RuleTrust},
	},
	{
		Name:  "a lost reply leaves a ghost",
		Fault: "an acquire without a reply counts as not granted, while its lease goes on being renewed",
		Edits: []Edit{
			{acquireGo, "a.open = a.open || !sent.IsZero() && undecided(err)", `if !sent.IsZero() && undecided(err) {
			ghost := &Lease{name: a.name, holder: a.holder, schema: c.config.Schema,
				free: c.free, limit: c.config.RequestTimeout, ended: c.ended}
			ghost.begin(time.Now().Add(c.config.TTL))
			c.renewer.add(ghost)
			a.holder = newHolder()
		}`},
			{renewSQL, "l.token = m.token", "(l.token = m.token OR m.token = 0)"},
		},
		Favour: []string{"cancelled", "replies dropped", "try"},
		Rules:  []string{history.RuleHanded},
	},
	{
		Name:   "a loss goes on being renewed",
		Fault:  "a lease that is over for the client goes on being renewed",
		Edits:  []Edit{{releaseGo, "c.renewer.remove(l)\n\tif errors.Is", "if errors.Is"}},
		Calm:   true,
		Rules:  []string{history.RuleLiveness},
		Favour: []string{"hold", "try"},
		Faults: []string{"replies dropped", "replies held back"},
	},
	{
		Name:  "a retry forgets its grant",
		Fault: "each question of an acquire has an id of its own: a retry is kept out by its own first grant",
		Edits: []Edit{{acquireGo, "a.open = a.open || !sent.IsZero() && undecided(err)",
			"if undecided(err) {\n\t\t\ta.holder = newHolder()\n\t\t}"}},
		Suite: &Suite{"internal/fieldcases", "TestReport28_LostReplyOfAWaitFindsItsOwnGrant", "it is the grant of the lost reply"},
	},
	{
		Name:   "release without an answer",
		Fault:  "a release that got no answer says that it is done",
		Edits:  []Edit{{releaseGo, "backOff(tries)):\n\t\t\treturn err", "backOff(tries)):\n\t\t\treturn nil"}},
		Favour: []string{"release", "black hole", "refused"},
		Rules:  []string{history.RuleConfirmed},
	},
}
