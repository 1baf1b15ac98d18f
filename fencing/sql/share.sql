-- Share: pass the fence in the writer's transaction beside other transactions of the same holder. A shared row lock.
--
--   $1 text    name
--   $2 bigint  token
--
-- One row: the token of the fence, which no grant raises until this transaction ends. Passed only if it is equal to the
-- writer's token. Lower than that is no pass: two holders above an unraised fence would both pass.
-- 0 rows: refused, the fence is above the token, or there is no such fence. read.sql tells which. Roll back.
--
-- FOR SHARE, not FOR KEY SHARE: an UPDATE of the token does not conflict with the latter. The condition on the token keeps
-- a stale holder's attempts from locking the row; equality there would take a snapshot from before the own grant for a
-- refusal, where now it is a 40001.
--
-- The pass is declared to guarded tables in the same statement, so that ROLLBACK TO SAVEPOINT undoes both. Not in the
-- select list of the locking query: that is computed before the lock, and on the version before a wait.
--
-- Clock: none.
-- Isolation: any. READ COMMITTED decides on the newest version of the row, after waiting for it; REPEATABLE READ and
-- SERIALIZABLE fail with 40001 if the row was written after the snapshot.
WITH fence AS MATERIALIZED (
    SELECT f.token
    FROM {schema}.job_fences AS f
    WHERE f.name = $1::text
        AND f.token <= $2::bigint
    FOR SHARE
)
SELECT
    f.token,
    CASE
        WHEN f.token = $2::bigint THEN
            set_config(
                'pglock.passed',
                (
                    coalesce(nullif(current_setting('pglock.passed', true), ''), '{}')::jsonb
                    || pg_catalog.jsonb_build_object(quote_ident({schema_text}) || '.' || $1::text, f.token)
                )::text,
                true
            ) IS NOT NULL
        ELSE false
    END AS declared
FROM fence AS f;
