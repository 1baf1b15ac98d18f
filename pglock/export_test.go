package pglock

// GateKey is gateKey, for the black-box tests.
var GateKey = gateKey
