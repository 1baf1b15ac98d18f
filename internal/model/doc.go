// Package model has the protocol as a model that the checker Spin searches whole, within bounds: lease.pml. It runs the checker
// and reads its verdict; the tests say which configurations hold, which mistakes are found, and which states are reached.
//
// docs/model.md tells how the steps of the model map to the SQL files, and what is not in it.
package model
