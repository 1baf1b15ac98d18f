// Package pgserver starts a PostgreSQL server without set-up, for tests and for the example programs.
//
// [Start] takes the first of these that is there: a DSN in LEASEHOLD_TEST_DSN or DATABASE_URL, PostgreSQL binaries on
// the machine, a Docker engine, and a download of binaries. A server of its own lives in a temporary folder, listens
// on 127.0.0.1 without a password and loses nothing worth keeping: it is not for data that anybody needs.
//
// Nothing is left behind. [Server.Close] removes processes and folder; if this process dies without it (panic, os.Exit,
// kill -9), the kernel tells the server (Linux), and a janitor process, a few lines of shell that wait for the end of
// a pipe, shuts the server down and removes the folder (everywhere). Containers are removed by testcontainers' reaper.
//
// Servers are put into sessions of their own, so that an interrupt typed at a terminal reaches this program alone and
// the program ends in its own order.
//
// Helpers that need a testing.T are in the parent package, pgtest; this one does not import testing.
package pgserver
