-- Renew: move the expiry of every lease of this process, in one statement. Never an upsert: only acquire inserts.
--
--   $1 text[]    names
--   $2 uuid[]    holders
--   $3 bigint[]  tokens
--   $4 bigint    TTL, microseconds
--
-- One row for each lease renewed: its name and holder. A lease that is missing was either lost (taken over, expired, released by an
-- operator, deleted) or its row is locked by somebody at the moment: inspect.sql tells which.
--
-- Clock: clock_timestamp() of this server, at each row. An expired lease is not renewed back. Isolation: READ COMMITTED.
-- SKIP LOCKED, so that one row that somebody keeps locked does not cost the other leases.
-- The commit waits for the disk whatever the default is: the holder counts on it.
WITH durable AS MATERIALIZED (
    SELECT
        CASE current_setting('synchronous_commit')
            WHEN 'off' THEN set_config('synchronous_commit', 'on', true)
        END AS setting
),
mine AS MATERIALIZED (
    SELECT l.name, l.holder
    FROM {schema}.pglock_leases AS l
    JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS m (name, holder, token)
        ON l.name = m.name
        AND l.holder = m.holder::uuid
        AND l.token = m.token
    WHERE l.expires_at > clock_timestamp()
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE {schema}.pglock_leases AS l
SET
    renewed_at = clock_timestamp(),
    expires_at = clock_timestamp() + $4::bigint::double precision * interval '1 microsecond'
FROM mine
CROSS JOIN durable
WHERE l.name = mine.name
    AND l.holder = mine.holder
RETURNING l.name, l.holder::text AS holder;
