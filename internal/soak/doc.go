// Package soak keeps clients busy for a long time and looks for what grows: goroutines, file descriptors, memory, connections,
// prepared statements, locks left in sessions, tables, indexes, dead rows, WAL.
//
// Clients take, renew, lose and release leases, pass fences, wait, give up, are cut off and come back ([Run]). Meanwhile
// [Sample]s are taken, and at the end the second quarter of the time is compared with the last one, by medians and with
// generous bounds ([Judge]), so that a busy machine is no leak and a leak is one. What must be exact is looked at after the
// load: nothing of it is left in the process or on the server.
package soak
