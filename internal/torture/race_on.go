//go:build race

package torture

// raced: this program was built with the race detector.
const raced = true
