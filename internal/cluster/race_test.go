//go:build race

package cluster_test

// underRace: the race detector watches this program and its workers, which do the same in each mode.
const underRace = true
