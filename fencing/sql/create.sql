-- Create: make a fence at 0, below every token, unless it is there.
--
--   $1 text  name
--
-- One row: made. 0 rows: it was there, and was not touched.
--
-- The plain read comes first, because ON CONFLICT DO NOTHING waits for an open transaction that has raised the fence.
--
-- Clock: clock_timestamp() of this server, by the column's default.
-- Isolation: any. Waits for another transaction that is making the same fence; REPEATABLE READ and SERIALIZABLE fail with
-- 40001 if that one then commits.
INSERT INTO {schema}.job_fences AS f (name, token)
SELECT $1::text, 0
WHERE NOT EXISTS (SELECT FROM {schema}.job_fences AS made WHERE made.name = $1::text)
ON CONFLICT (name) DO NOTHING
RETURNING f.token;
