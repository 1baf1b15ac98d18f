// Package faultnet breaks the network between a program and PostgreSQL, on purpose and at a chosen moment.
//
// [Proxy] stands between the two as a TCP proxy whose two directions can be delayed, held back or swallowed
// separately: what a slow, a partitioned and a half-dead network look like from outside the program. [Wire] works
// inside the program: it wraps the connections that pgx makes and fails the n-th round trip, before it is sent or after
// the server has done its work and before the reply is seen.
package faultnet
