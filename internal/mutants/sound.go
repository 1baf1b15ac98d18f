package mutants

// sound are changes that are no faults: nothing may be found in them.
var sound = []Mutant{
	{
		Name:  "gate is open",
		Fault: "none: the gate lets everybody in, slowly, and the row decides (invariant I7)",
		Edits: []Edit{slowGate},
	},
	{
		Name:  "wall clock is set",
		Fault: "none: the wall clock of the clients is set back and forth, and plays no part (invariant I6)",
		Edits: []Edit{wallSteps},
		Slow:  true,
	},
	{
		Name:  "renew at the transaction's start",
		Fault: "none: renew reads now(), which in a transaction of one statement that waits for no row only extends by less",
		Edits: []Edit{
			{renewSQL, renewAlive, "WHERE l.expires_at > now()"},
			{renewSQL, "renewed_at = clock_timestamp(),\n    expires_at = clock_timestamp()",
				"renewed_at = now(),\n    expires_at = now()"},
		},
		Favour: []string{"vacuum full", "index"},
	},
}
