//go:build !race

package mutants

// raced: this test was built without the race detector.
const raced = false
