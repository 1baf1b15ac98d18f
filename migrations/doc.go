// Package migrations installs and removes the tables of Leasehold.
//
// The numbered SQL files beside this text are the schema. [FS] holds them for golang-migrate, goose, atlas, or any
// other tool; [Up], [Down] and [Version] run them over golang-migrate with a database driver of this package; [Script]
// prints them for psql.
//
// # What it promises
//
//   - Any number of processes may call [Up] at once, directly or through a pooler in transaction mode. All return nil;
//     each migration is applied by one of them.
//   - One migration is one transaction: lock, change and version number commit together. A process that is killed
//     leaves the state before or the state after, never a version marked dirty.
//   - Nothing outlives the transaction: no advisory lock of the session, no setting, no prepared statement. A pool is
//     left as it was found, and no connection of it is kept while waiting for another process.
//   - A version that golang-migrate's own command line left dirty is healed by the next [Up]: every file is atomic
//     and may run again, so the dirty migration is applied again, under the lock.
//   - A table that has the right name and another shape is an error, and nothing is recorded.
//
// # What it does not promise
//
//   - [Down] to version 0 drops every token. Tokens start again from 1 after the next [Up], so a holder from before
//     could pass a fence from after. Stop all writers first.
//   - golang-migrate's own command line takes its lock for the session. It excludes [Up] and is excluded by it when
//     it connects directly; do not run it through a transaction pooler.
//
// # Bookkeeping
//
// The version is kept in table pglock_schema_migrations of the same schema, in golang-migrate's layout, never in
// schema_migrations, which belongs to the application. The stock command line works on the same database with
// x-migrations-table=pglock_schema_migrations and search_path=<schema> in its URL.
package migrations
