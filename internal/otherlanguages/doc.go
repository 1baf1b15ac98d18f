// Package otherlanguages holds the tests of docs/other-languages.md: the programs of examples/otherlanguages, in psql,
// Python and PL/pgSQL, and this library take turns on one name. It has no code for users.
package otherlanguages
