// Package fieldcases has one test for each failure that users of other locking tools reported and that concerns leases,
// fences, poolers, clocks, failover or migrations: one file a case. The tests are black-box, on real servers with
// real faults; times are scaled down. It has no code of its own.
//
// Bounds on time have room for a busy machine. What must hold by logic is asserted on tokens and on the database's clock.
package fieldcases
