package migrations

import "embed"

// FS holds the migrations: NNNN_name.up.sql and NNNN_name.down.sql, at the root. Each file is plain SQL, atomic as one
// multi-statement query or inside one transaction, and safe to run again. Tables are made in the first schema of
// search_path.
//
//go:embed *.sql
var FS embed.FS

// Newest is the version that [Up] goes to: the highest number in [FS].
const Newest = 5
