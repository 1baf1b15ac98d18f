-- Create: make a fence at 0, below every token, unless it is there.
--
--   $1 text  name
--
-- One row: made. 0 rows: it was there, and was not touched.
--
-- Clock: clock_timestamp() of this server, by the column's default.
-- Isolation: any. Waits for another transaction that is making the same fence; REPEATABLE READ and SERIALIZABLE fail with
-- 40001 if that one then commits.
INSERT INTO {schema}.job_fences AS f (name, token)
VALUES ($1::text, 0)
ON CONFLICT (name) DO NOTHING
RETURNING f.token;
