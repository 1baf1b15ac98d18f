// Package fencing refuses the writes of a stale holder inside the transaction that makes them.
//
// A lease is time-bounded, and its holder can be paused past the end: by a garbage collector, a virtual machine, a network. It
// then wakes up and writes, not knowing that somebody else was granted the name. Only the store that receives the
// write can refuse it. Here the store is PostgreSQL: a row of job_fences, the fence, has the highest token granted or
// accepted for a name, and each writing transaction checks its own token against it and keeps the row locked until COMMIT.
// A transaction with a lower token is refused, and rolls back with nothing written. The idea is Chubby's sequencer (Burrows
// 2006, §2.4), known as the fencing token since Kleppmann, "How to do distributed locking" (2016).
//
// # What it does not do
//
//   - It checks transactions that call it. A write path without a check is not fenced, unless it writes to a guarded table.
//   - It covers what commits with the check: rows of the same database. A mail, an object, a message or a row of another database
//     that is written meanwhile is not undone, and not refused. Send the token along, and let the receiver refuse what is
//     lower than the highest it has seen, atomically with its write. A receiver that cannot is not protected.
//   - It does not roll back. After a refusal the transaction is still open and usable: the caller has to return the error.
//   - It does not end the stale holder's work, and knows nothing of leases and time. A holder whose lease ran out still
//     passes until the next grant: nobody else has the name.
//   - It does not survive a fence that is lowered or restored alone. Rows and fence of one database go back together.
//
// # The forms
//
//   - [Fence.AdvanceTx], the conditional UPDATE: the form to begin with. It raises the fence itself, so it is also the one for
//     a fence in another database than the lock's. Transactions on one fence run one after the other.
//   - [Fence.ShareTx], a shared row lock on a fence that the grant has raised: transactions of one holder run side by side.
//     It locks the row without writing a new version. With one client the two cost much the same.
//   - [Fence.AdvanceStrictTx], which refuses an equal token: one transaction a token. It needs a fence of its own, because the
//     grant puts the lease's fence at the token.
//
// A fence in another database is raised by the first [Fence.AdvanceTx] of a term there, not by the grant: until then the
// holder before still passes.
//
// All forms work at every isolation level, anywhere in the transaction. First, a refusal comes before the work. Last, the
// row is locked for a shorter time. Keep to one order in all transactions that touch the same rows, or they deadlock. In REPEATABLE
// READ and SERIALIZABLE a fence that was written after the snapshot is a 40001, for the retry that such transactions need
// anyway; with AdvanceTx that includes every transaction of the same holder which ran meanwhile.
//
// The row lock is the check. It lives until COMMIT or ROLLBACK (PostgreSQL manual 13.3.2), which is why the
// functions take a transaction, not a connection or a pool, and why a plain SELECT is no check. Therefore:
//
//   - ROLLBACK TO SAVEPOINT to before the check undoes it, the lock too. Writes that commit after that are not fenced. A pgx
//     transaction begun in another is a savepoint: check in the outermost.
//   - An open transaction that passed keeps every grant of that name waiting, or busy. Bound it: idle_in_transaction_session_timeout,
//     transaction_timeout (17), and no waiting for anything else between check and COMMIT. Shared checks that overlap without a
//     gap do the same for as long as they go on: stop when the lease is lost. [Fence.Run] does the first.
//   - A refused transaction may hold the lock too, if the check had to wait for the grant that refuses it. Roll back at once.
//
// # A check that cannot be forgotten
//
// [Fence.GuardTx] puts a table under a fence. The database then refuses each write of a transaction that has not passed it,
// whoever sends it: INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE, with SQLSTATE LH001, LH002 or LH003. For that the
// checks declare what they passed in pglock.passed, a setting that ends with the transaction and is undone by ROLLBACK TO
// SAVEPOINT together with the lock. docs/guards.md says what a guard costs, which privileges it needs, and what gets past it.
//
// [Fence.Run] is a transaction with the check in front, bounded so that a frozen process does not keep the next holder out, and
// tried again where that helps.
//
// # Other languages
//
// The SQL is the interface. In the transaction of the write, one of
//
//	UPDATE job_fences SET token = :token, raised_at = clock_timestamp() WHERE name = :name AND token <= :token
//	SELECT token FROM job_fences WHERE name = :name AND token = :token FOR SHARE
//
// One row is a pass. No row is no error in SQL: look, and roll back. Both need SELECT on job_fences; the first UPDATE of token and
// raised_at, the second UPDATE of any one column. For guarded tables, say what was passed:
//
//	SELECT set_config('pglock.passed', '{"public.invoice-job": 7}', true)
//
// The guard checks that at each write, so for guarded tables this is enough, alone and without privileges.
//
// But for [Fence.Run], nothing here begins, commits or rolls back a transaction, and nothing leaves a setting behind when it has
// ended. All of it works behind a transaction pooler and in every execution mode of pgx.
package fencing
