package main

func migrate() group {
	return group{
		name:    "migrate",
		summary: "Installs, removes and shows the tables.",
		members: []member{
			migrateUp(),
			migrateDown(),
			migrateVersion(),
			migrateSQL(),
		},
		notes: exitNotes,
	}
}
