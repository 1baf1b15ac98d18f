// Package poolers tests leases and fences behind PgBouncer: each of pgx's modes in each of the pooler's, the settings of
// a pooler that matter, its restart, and that a mode that it breaks is refused before anything is granted. docs/poolers.md
// is what was found.
//
// The tests are for the PgBouncer that is first in PATH. From 1.21 on they also test it with prepared statements;
// newer.sh fetches one.
package poolers
