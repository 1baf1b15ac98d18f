// Package torture has several client processes do random operations on a few leases while they, their connections, the server
// and its clock are broken on purpose, and returns what happened as a history for package history to judge.
//
// A client is a life after the other of the program in folder client. Each writes down what it sees in a file of its own;
// what the database itself records is in record.sql; this process notes the faults, and compares the clocks.
//
// Operations and faults are plug-ins: a new kind is a small file with a value of type op (folder client) or fault, named in the
// list of op.go or fault.go. All decisions come from the seed, so that a seed gives each life the same operations, with the same
// arguments, in the same order, and the same faults. How they interleave is up to the machine.
package torture
