// Package fencedstores shows how writes that leave the lock's database are fenced, or what to do where they cannot be: an object
// store, another PostgreSQL, Redis, and an outbox for receivers that know no tokens. docs/outside-the-database.md explains it.
//
// It is code to copy, with tests.
package fencedstores
