-- Read: the token of a fence, for the text of an error. A plain read: no lock, and never a check.
--
--   $1 text  name
--
-- One row: the token. 0 rows: there is no such fence.
--
-- A statement of its own, because the snapshot of the refused UPDATE may be older than the row version that refused it.
--
-- Clock: none. Isolation: any.
SELECT f.token
FROM {schema}.job_fences AS f
WHERE f.name = $1::text;
