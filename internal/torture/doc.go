// Package torture has several clients do random operations on a few leases while connections and the server are broken on
// purpose, and returns what happened as a history for package history to judge.
//
// Operations and faults are plug-ins: a new kind is a small file with a value of type op or fault, named in the list of
// op.go or fault.go. All decisions come from the seed, so that a seed gives the same operations, with the same
// arguments, in the same order for each client, and the same faults. How they interleave is up to the machine.
//
// record.sql says how the database itself records what is done.
package torture
