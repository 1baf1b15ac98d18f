// Package testproc is a process that holds leases, for tests that freeze, kill and cut off a real one.
//
// The program is package holder, below. It is told what to do line by line on its standard input and tells what happened
// in lines of JSON on its standard output; a [Process] is the test's end of the two. It ends with its standard input, and
// on Linux with the test, frozen or not.
package testproc
