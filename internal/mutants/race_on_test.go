//go:build race

package mutants

// raced: this test was built with the race detector.
const raced = true
