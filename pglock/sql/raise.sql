-- Raise: lift every token that this cluster grants from now on above every token in use, and refuse all that was granted.
-- For an operator, after what nothing can detect: two clones of one data directory that were both written to, a standby
-- promoted without having followed the last primary, an older state put back into the same cluster, or a failover that lost
-- grants on a server that does not tell its timeline. A raise counts once the standby has it.
--
-- No parameters. One row: the new base, how many leases were freed, how many fences were raised. A live holder is told that
-- its lease was revoked, and its fenced writes are refused from the commit on.
--
-- Identifier 0 is raised too, for roles that the server does not tell who it is.
--
-- It waits for fenced transactions that are open. Fences first, then leases: the order of acquire.sql. newest reads each lease
-- under its row lock: one that is free in our snapshot may have been granted while we waited for its fence.
--
-- Clock: clock_timestamp() of this server, for people. Isolation: READ COMMITTED. A grant of a new name at the same moment may
-- escape it; run it again, it costs nothing.
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
    SELECT coalesce(max(epoch), 0) AS epoch
    FROM (
        SELECT token >> 32 AS epoch FROM {schema}.pglock_leases
        UNION ALL
        SELECT token >> 32 FROM {schema}.job_fences
        UNION ALL
        SELECT base FROM {schema}.pglock_epochs
        UNION ALL
        SELECT e.base + c.timeline - 1
        FROM cluster AS c
        JOIN {schema}.pglock_epochs AS e ON e.system_identifier = c.system_identifier
    ) AS used
    WHERE epoch < 2147482624
),
entered AS (
    INSERT INTO {schema}.pglock_epochs AS e (system_identifier, base, entered_at)
    SELECT ids.system_identifier, (h.epoch / 1024 + 1) * 1024, clock_timestamp()
    FROM (
        SELECT system_identifier FROM cluster
        UNION
        SELECT 0
    ) AS ids
    CROSS JOIN highest AS h
    CROSS JOIN durable
    ON CONFLICT (system_identifier) DO UPDATE SET
        base = greatest(e.base + 1024, EXCLUDED.base),
        entered_at = clock_timestamp()
    RETURNING e.base
),
lifted AS MATERIALIZED (
    SELECT max(base) AS base FROM entered
),
raised AS (
    UPDATE {schema}.job_fences AS f
    SET
        token = lifted.base << 32,
        raised_at = clock_timestamp()
    FROM lifted
    WHERE f.token < lifted.base << 32
    RETURNING f.name
),
counted AS MATERIALIZED (
    SELECT count(*) AS fences FROM raised
),
newest AS MATERIALIZED (
    SELECT
        l.name,
        l.expires_at IS NOT NULL AS unreleased
    FROM {schema}.pglock_leases AS l
    CROSS JOIN counted
    WHERE counted.fences >= 0
    FOR NO KEY UPDATE OF l
),
freed AS (
    UPDATE {schema}.pglock_leases AS l
    SET expires_at = NULL
    FROM newest AS n
    WHERE l.name = n.name
        AND n.unreleased
    RETURNING l.name
)
SELECT
    (SELECT base FROM lifted) AS base,
    (SELECT count(*) FROM freed) AS leases,
    (SELECT fences FROM counted) AS fences;
