package model

import "time"

// The bounds that a short search is small with: one statement of a client at a time, no fault, and clocks that run alike. Each
// configuration lifts what it is about.
var small = []string{"-DSLOTS=1", "-DFAULTS=0", "-DDRIFT=0"}

// with is small with other bounds; the last definition of a name counts.
func with(flags ...string) []string {
	bounds := map[string]string{}
	var names []string
	for _, flag := range append(append([]string{}, small...), flags...) {
		name := nameOf(flag)
		if _, known := bounds[name]; !known {
			names = append(names, name)
		}
		bounds[name] = flag
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = bounds[name]
	}
	return list
}

func nameOf(flag string) string {
	for i := range flag {
		if flag[i] == '=' {
			return flag[:i]
		}
	}
	return flag
}

// crossing is a failover at the start: one client on each server, and a writer that takes the tokens of the next primary to the
// former one as well.
func crossing() []string { return with("-DSERVERS=2", "-DCROSSING=1", "-DWRITERS=1", "-DFENCED=1") }

// Short are the configurations that every test run verifies. Together they have every feature of the model but those that only
// Full has two of at a time.
func Short() []Search {
	return []Search{
		{Name: "clocks that drift", Flags: with("-DDRIFT=1"), Depth: 20_000, Limit: 5 * time.Minute},
		{Name: "lost answers and crashes", Flags: with("-DFAULTS=1"), Depth: 20_000, Limit: 5 * time.Minute},
		{Name: "fenced transactions", Flags: with("-DWRITERS=2"), Depth: 20_000, Limit: 5 * time.Minute},
		{Name: "an operator", Flags: with("-DOPS=1"), Depth: 20_000, Limit: 5 * time.Minute},
		{Name: "a failover", Flags: with("-DSERVERS=2"), Depth: 20_000, Limit: 10 * time.Minute},
		{Name: "a former primary", Flags: crossing(), Depth: 20_000, Limit: 10 * time.Minute},
		{Name: "a synchronous standby", Flags: with("-DFAULTS=1", "-DSYNC=1"), Depth: 20_000, Limit: 10 * time.Minute},
	}
}

// Full are the larger bounds of make model.
func Full() []Search {
	return []Search{
		{Name: "late statements", Flags: with("-DSLOTS=2", "-DFAULTS=1"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "drift and faults", Flags: with("-DFAULTS=1", "-DDRIFT=1"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "a longer TTL", Flags: with("-DTTL=3", "-DDRIFT=1"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "a second attempt of each client", Flags: with("-DATTEMPTS=2"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "three clients", Flags: with("-DCLIENTS=3"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "an operator among fenced transactions", Flags: with("-DOPS=1", "-DWRITERS=1"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "an operator beside lost answers and crashes", Flags: with("-DOPS=1", "-DFAULTS=1"), Depth: 20_000, Limit: 30 * time.Minute},
		{Name: "failovers and a restore", Flags: with("-DSERVERS=3", "-DRESTORES=1", "-DDEPOSED=0"), Depth: 100_000, Limit: 30 * time.Minute},
		{Name: "fenced transactions through a failover", Flags: with("-DSERVERS=2", "-DDEPOSED=0", "-DWRITERS=1", "-DFENCED=1"), Depth: 100_000, Limit: 30 * time.Minute},
		{
			Name: "everything, by hashes", Bits: 30, Depth: 100_000, Limit: 5 * time.Minute,
			Flags: []string{
				"-DCLIENTS=3", "-DSLOTS=2", "-DFAULTS=2", "-DDRIFT=1", "-DOPS=1", "-DWRITERS=2", "-DSERVERS=3", "-DRESTORES=1",
			},
		},
	}
}
