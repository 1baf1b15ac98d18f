-- Reap: free grants that exist, or may come to exist, without anybody knowing of them. Release for many attempts at once.
--
--   $1 text[]  names
--   $2 text[]  holders, UUIDs: of attempts, so that no token is needed
--
-- One row for each row freed: its holder. An attempt without a row here was not granted (yet), is over, or its row is locked
-- at the moment.
--
-- Clock: none. Isolation: READ COMMITTED. The commit does not wait for the disk, as in release.sql.
WITH lazy AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS setting
),
theirs AS MATERIALIZED (
    SELECT l.name, l.holder
    FROM {schema}.pglock_leases AS l
    JOIN unnest($1::text[], $2::text[]) AS a (name, holder)
        ON l.name = a.name
        AND l.holder = a.holder::uuid
    WHERE l.expires_at IS NOT NULL
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE {schema}.pglock_leases AS l
SET expires_at = NULL
FROM theirs
CROSS JOIN lazy
WHERE l.name = theirs.name
    AND l.holder = theirs.holder
    AND lazy.setting IS NOT NULL
RETURNING l.holder::text AS holder;
