// Package faultnet breaks the network between a program and PostgreSQL, on purpose and at a chosen moment.
//
// [Proxy] stands between the two as a TCP proxy whose two directions can be delayed, held back or swallowed
// separately: what a slow, a partitioned and a half-dead network look like from outside the program.
package faultnet
