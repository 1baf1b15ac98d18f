// Package pgtest gives tests a PostgreSQL server without set-up.
//
// A test package has one line of set-up,
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and a test asks for what it needs: [Schema] or [Migrated] for a schema of its own on the server that the tests of
// the package share, so that tests run in parallel; [Private] for a server that it may stop, kill and freeze; [Standby]
// and [PgBouncer] for more. What cannot be had on this machine skips the test through [Skip], which CI turns into a
// failure. Where the server comes from is decided by package pgserver.
package pgtest
