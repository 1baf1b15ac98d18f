-- Advance, strictly: raise the fence in the writer's transaction. An equal token is refused too, so that one transaction
-- a token commits.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: passed; nobody else passes, and no grant raises the fence, until this transaction ends.
-- 0 rows: refused, the fence is at the token or above, or there is no such fence. read.sql tells which. Roll back.
--
-- Never on the fence that a grant raises: it is at the token from the start, and refuses.
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
        AND f.token < $2::bigint
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
