// Package pglock takes leases in PostgreSQL: a name is held by one process at a time, for a time to live that is renewed in
// the background, under a fencing token that is higher for every new holder.
//
// # What a lease does not do
//
// A lease alone does not keep two holders from writing. Its holder can be paused (garbage collection, a frozen virtual
// machine, a network that swallows packets) past the expiry, while the next holder works, and then write. No
// lease anywhere prevents that (Gray and Cheriton 1989; Kleppmann 2016). It saves duplicate work; it does not protect data.
//
// What protects data is the fence: the transaction that writes also passes the fence of the lease, with [Lease.AdvanceTx] or
// [Lease.ShareTx], and the database refuses it if a newer token was granted. That holds for data in the same database. Mail, object
// stores and other services must check the token themselves, or do not know; see package fencing.
//
// Neither is a lease a record that something was done: when it is free, the next process may take it and do the same again.
//
// # States
//
//	         granted                     released by the holder
//	free ────────────────▶ held ───────────────────────────────▶ free
//	                       │  ▲
//	          ran out      │  │ renewed, while not run out
//	                       ▼
//	                    expired ─────────▶ held by another, under a higher token
//	                             granted
//
// All this is one row a name. The database's clock alone decides what has expired; clocks of clients play no part, and need
// not be set. Only a grant raises the token, and it raises the fence in the same statement. A refused attempt only reads.
//
// # How long a lease is trusted
//
//	  sent        answered                      trusted until        expires
//	───┼─────────────┼─────────────────────────────────┼─────────────────┼──▶
//	   │◀───────────────── TTL − margin ──────────────▶│◀──── margin ───▶│
//
// The holder counts from when it sent its last good question, on its monotonic clock, so that a slow answer never
// stretches its trust. At the end of trust the lease's context is cancelled, whatever the network does. One failed renewal is not
// a loss: it is repeated until then. An answer that the lease is somebody else's is a loss at once. A loss is final.
//
// # Unknown outcomes
//
// After a context that ended or a connection that broke, a grant may exist that nobody knows of. Each attempt has a random id
// and is idempotent by it; what cannot be confirmed is released in the background or expires by itself, and is never
// renewed.
//
// # Poolers and timeouts
//
// Every question is one statement and one transaction; nothing lives in a session and no transaction stays open while work
// runs. So it works behind a pooler in transaction mode (set the pool's DefaultQueryExecMode to cache_describe, exec or
// simple_protocol there, unless the pooler knows prepared statements; a mode that it breaks is refused before the first grant),
// and statement, lock and idle timeouts of the server end nothing but a question, which is asked again. Where the default
// isolation is not READ COMMITTED each question says its own, in the same round trip. A grant and a renewal wait for the disk
// also where synchronous_commit is off.
//
// Give the connection string a connect_timeout of about the request timeout: a pgxpool goes on connecting when its caller has
// given up, for two minutes by default, and such connections count against the pool.
//
// # Suspend
//
// On Linux the monotonic clock stops while the machine sleeps. A holder that wakes from suspend may trust its lease for as
// long as it was asleep. Its fenced writes are refused all the same.
//
// # Failover
//
// Tokens rise through a crash, a failover that loses the last grants, and a restore into another cluster: their upper half is an
// epoch of the cluster and its timeline, read by the granting statement. What has the same identifier and the same timeline
// cannot be told apart: clones of one data directory, two standbys promoted one after the other without a shared WAL archive, an
// older state put back into the same cluster. There, and where a managed service hides both (said in the log), tokens can
// repeat until an operator runs pglock epoch raise, see [Client.RaiseEpoch]. The lease itself does not survive a failover that lost its last
// renewal: the new primary may grant it earlier than the old holder believes. The fence does not care.
package pglock
