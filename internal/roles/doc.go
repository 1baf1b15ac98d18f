// Package roles has the tests of docs/security.md: what a role with the grants of docs/roles.sql can do and what it is
// refused, that no statement runs code of somebody who may create things beside it, and that no password is shown.
package roles
