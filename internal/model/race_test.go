//go:build race

package model

// raceDetector: the checker is a program in C. What the detector can see is what runs it, and a few searches show that.
const raceDetector = true
