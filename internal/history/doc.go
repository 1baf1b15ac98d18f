// Package history judges what a run of the toolkit did. A history is a list of events, one JSON object a line: what the
// database itself recorded in the transactions concerned, and what the clients noted on their own clocks. [Check]
// returns what in it breaks a promise of the design.
//
// The database's word counts. Each of its events has a number drawn from one sequence under the lock of the row
// concerned (see record.sql of package torture), so that the numbers of one name are in the order of its commits, and an
// event of a transaction that was rolled back is not there. Times are microseconds: of the database's clock since 1970, of
// a process's monotonic clock since its start.
//
// A rule reports only what is certain: where two clocks are compared, the interval in which the true time lies is
// used to the benefit of the accused. What a rule says is therefore a fault, whatever the load of the machine.
package history
