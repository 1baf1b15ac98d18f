package fencedstores

// SetScript is the script for the tests.
var SetScript = setScript
