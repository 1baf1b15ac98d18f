-- Share: pass the fence in the writer's transaction beside other transactions of the same holder. A shared row lock.
--
--   $1 text  name
--
-- One row: the token of the fence, which no grant raises until this transaction ends. Passed only if it is equal to the
-- writer's token. Lower than that is no pass: two holders above an unraised fence would both pass.
-- 0 rows: there is no such fence. Roll back, as after any other answer.
--
-- FOR SHARE, not FOR KEY SHARE: an UPDATE of the token does not conflict with the latter. The condition is on the name
-- only, so that the token is that of the row version locked, not of one that the snapshot showed before the wait.
--
-- Clock: none.
-- Isolation: any. READ COMMITTED decides on the newest version of the row, after waiting for it; REPEATABLE READ and
-- SERIALIZABLE fail with 40001 if the row was written after the snapshot.
SELECT f.token
FROM {schema}.job_fences AS f
WHERE f.name = $1::text
FOR SHARE;
