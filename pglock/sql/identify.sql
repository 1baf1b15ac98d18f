-- Identify: what server is this, and is the schema installed. Run once by a client, before its first grant. No parameters.
--
-- One row: the system identifier (0 if the server does not tell), the timeline, the isolation level that a statement gets
-- by default, whether it may write, whether the schema has an epoch for this cluster yet, and the server process that
-- answers: behind a pooler it is not the one that the connection was given at its start. Fails with 42P01 if the schema is not
-- installed, with 55000 on a standby, with 42501 or 42883 where the server refuses to say who it is.
--
-- Clock: none. Isolation: any.
WITH cluster AS MATERIALIZED (
    -- cluster: begin
    SELECT
        c.system_identifier,
        ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint AS timeline
    FROM pg_control_system() AS c
    -- cluster: end
)
SELECT
    c.system_identifier,
    c.timeline,
    current_setting('transaction_isolation') AS isolation,
    current_setting('transaction_read_only') = 'on' AS read_only,
    e.base IS NOT NULL AS entered,
    pg_backend_pid() AS backend
FROM cluster AS c
LEFT JOIN {schema}.pglock_epochs AS e ON e.system_identifier = c.system_identifier
LEFT JOIN {schema}.pglock_leases AS l ON false
LEFT JOIN {schema}.job_fences AS f ON false;
