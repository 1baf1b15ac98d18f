// Package control runs one workload under several locks, to show what each of them lets through.
//
// Two worker processes take turns on one row of a ledger: take the lock, read a value, write it back one higher, release.
// A fault happens to the first of them at a chosen step, the second one takes its turn, the first goes on. What was
// committed is then counted. The regimes differ in the lock, in whether the holder asks its lock before it writes, and in
// whether the writing transaction passes a fence; the worker and its transaction are the same for all.
//
// The controls are the regimes in which something stale is expected: they show that the workload can find it.
package control
