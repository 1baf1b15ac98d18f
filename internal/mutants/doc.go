// Package mutants shows that the judge of the histories sees faults: it has the library built with one fault after the other put
// in, lets the torture loose on it, and wants the report.
//
// A mutant is an edit of the library's Go or SQL that is laid over the source (go build -overlay), so that what runs is a
// program with the fault compiled in, and the source stays as it is. Its edits must fit: a text that is not there exactly once
// fails the test, so that a mutant cannot turn into the library itself when a line is reworded.
//
// To add one, put it into the list of the file for its place: statements.go, client.go, fences.go or failover.go, and what is no
// fault into sound.go. docs/mutants.md says what finds each, and how long it takes.
package mutants
