-- Enter: give this cluster a base from which its epochs are above every epoch in use.
--
-- Run when acquire.sql says unentered: on a first install, after a restore into another cluster, pg_upgrade, a logical
-- cut-over, and when tokens from another cluster came in by a restore. No parameters. One row: the new base.
-- 0 rows: the base was good enough, or another session entered at the same moment.
--
-- The first cluster gets 0. Any other gets the next multiple of 1024 above the highest epoch in the rows, not just the
-- next number: the old cluster may have been promoted, and have granted under its new timeline, without any of those
-- rows having arrived here.
--
-- Tokens of an epoch beyond what fits do not count: they were not granted, but given to a fence by hand. The commit waits for
-- the disk also where synchronous_commit is off.
--
-- Clock: clock_timestamp() of this server, for people. Isolation: READ COMMITTED. Two at once agree: the second waits for the
-- row and sees it good enough.
WITH durable AS MATERIALIZED (
    SELECT
        CASE current_setting('synchronous_commit')
            WHEN 'off' THEN set_config('synchronous_commit', 'on', true)
        END AS setting
),
cluster AS MATERIALIZED (
    -- cluster: begin
    SELECT
        c.system_identifier,
        ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint AS timeline
    FROM pg_control_system() AS c
    -- cluster: end
),
highest AS MATERIALIZED (
    SELECT max(epoch) AS epoch
    FROM (
        SELECT token >> 32 AS epoch FROM {schema}.pglock_leases
        UNION ALL
        SELECT token >> 32 FROM {schema}.job_fences
        UNION ALL
        SELECT base FROM {schema}.pglock_epochs
    ) AS used
    WHERE epoch < 2147482624
)
INSERT INTO {schema}.pglock_epochs AS e (system_identifier, base, entered_at)
SELECT
    c.system_identifier,
    CASE WHEN h.epoch IS NULL THEN 0 ELSE (h.epoch / 1024 + 1) * 1024 END,
    clock_timestamp()
FROM cluster AS c
CROSS JOIN highest AS h
CROSS JOIN durable
ON CONFLICT (system_identifier) DO UPDATE SET
    base = greatest(e.base, EXCLUDED.base),
    entered_at = clock_timestamp()
WHERE e.base + (SELECT timeline FROM cluster) - 1 < (SELECT epoch FROM highest)
    OR e.base <= (
        SELECT max(other.base)
        FROM {schema}.pglock_epochs AS other
        WHERE other.system_identifier NOT IN (0, e.system_identifier)
    )
RETURNING e.base;
