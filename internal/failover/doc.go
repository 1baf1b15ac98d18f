// Package failover has the tests of what survives the loss, the copy and the move of a server: one file a scenario, with real
// servers that are killed, promoted, copied and restored. It has no code of its own.
//
// Times are long where something has to last and short where something has to end, so that a busy machine decides nothing.
package failover
