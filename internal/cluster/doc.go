// Package cluster runs a real PostgreSQL cluster for tests: three members under Patroni, with etcd, on 127.0.0.1, and proxies
// in front of everything that one part asks of another, so that a part can be cut off.
//
// Its test kills, stops, partitions and switches the leader under load, again and again, and judges what the clients were
// told and what the database that survived has recorded. docs/cluster.md has the results.
//
// All processes run as an unprivileged user in one temporary folder. A janitor, a few lines of shell that wait for the end of
// a pipe, ends them and removes the folder, whether the program closes the cluster or is killed.
package cluster
