// Package timeline draws a history for people: one HTML page that needs nothing from outside.
//
// At the top is what the judge found, then the whole run as one picture, then slices of some seconds each, one below the
// other. A slice has a lane for the faults, one for each name with its terms and writes as the database recorded them, and
// one for each client that did something in it: what it asked and was told, when it trusted a lease, its writes and
// releases. The events of a violation are ringed in red, and the list of violations links to them.
//
// All lanes are on the machine's clock. What the database recorded is placed by [history.Clock].
package timeline
