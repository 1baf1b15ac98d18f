-- Advance: pass the fence in the writer's transaction, and raise it if the token is higher. A conditional UPDATE.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: passed; nobody else passes, and no grant raises the fence, until this transaction ends.
-- 0 rows: refused, the fence is above the token, or there is no such fence. read.sql tells which. Roll back.
--
-- The pass is declared to guarded tables in the same statement, so that ROLLBACK TO SAVEPOINT undoes both.
--
-- Clock: clock_timestamp() of this server, for people; it may be read before a wait for the row.
-- Isolation: any. READ COMMITTED decides on the newest version of the row, after waiting for it; REPEATABLE READ and
-- SERIALIZABLE fail with 40001 if the row was written after the snapshot.
WITH passed AS (
    UPDATE {schema}.job_fences AS f
    SET
        token = $2::bigint,
        raised_at = clock_timestamp()
    WHERE f.name = $1::text
        AND f.token <= $2::bigint
    RETURNING f.token
)
SELECT
    p.token,
    set_config(
        'pglock.passed',
        (
            coalesce(nullif(current_setting('pglock.passed', true), ''), '{}')::jsonb
            || pg_catalog.jsonb_build_object(quote_ident({schema_text}) || '.' || $1::text, p.token)
        )::text,
        true
    ) IS NOT NULL AS declared
FROM passed AS p;
