-- Release: end one's own term. The row stays and keeps its token.
--
--   $1 text    name
--   $2 text    holder, a UUID
--   $3 bigint  token; 0 for an attempt whose outcome, and so whose token, is not known
--
-- One row: the term was ours and is ended. expired is true if it had already run out, with nobody taking over.
-- 0 rows: it was not ours any more. Nothing was changed.
--
-- Clock: clock_timestamp() of this server, after the row was found. Isolation: READ COMMITTED.
-- The commit does not wait for the disk or a standby: a release lost in a crash costs the rest of the TTL, no more. A
-- later grant waits, and its WAL comes after ours.
WITH lazy AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
)
UPDATE {schema}.pglock_leases AS l
SET expires_at = NULL
FROM lazy
WHERE l.name = $1::text
    AND l.holder = $2::text::uuid
    AND ($3::bigint = 0 OR l.token = $3::bigint)
    AND l.expires_at IS NOT NULL
    AND lazy.setting IS NOT NULL
RETURNING
    (SELECT old.expires_at FROM {schema}.pglock_leases AS old WHERE old.name = $1::text) <= clock_timestamp() AS expired;
