-- Acquire: begin a term of a free or expired lease, or say why not. One statement, one transaction, one round trip.
--
--   $1 text    name
--   $2 text    holder, a UUID: random, one for each attempt; the same attempt may ask again after an unknown outcome
--   $3 bigint  TTL, microseconds
--   $4 bigint  key of the advisory gate
--   $5 text    label, for people
--   $6 text    metadata, a JSON object, for people
--
-- Always one row. outcome:
--   granted     the term is ours: token, remaining
--   found       an earlier question of this attempt was granted: token, remaining. It was only read, and its commit may
--               still wait for a standby: renew it before it is used
--   held        somebody else has it: token, label and remaining are theirs. Nothing was written or locked
--   busy        not known: another attempt is at the gate, a fenced transaction of an earlier holder is still
--               open, or the row changed under us. Ask again in some milliseconds
--   unentered   the epoch of this cluster is not known or too low: run enter.sql, ask again
--   superseded  a token of a later timeline of this very cluster is here: the server is a former primary that has not
--               noticed yet. Nothing was written. Ask the present primary; do not run enter.sql
--   outrun      the fence was raised past the new token by somebody who bypassed the gate: the row is ours, the
--               token must not be used. Release the attempt, ask again with another holder id
-- remaining is microseconds at the time of reading. took_over is true when the term before was not released; then
-- label is its holder's and remaining_before the (negative) time since it ran out.
--
-- Clock: clock_timestamp() of this server, when each part runs. ON CONFLICT computes expires_at after it has the row.
-- Isolation: READ COMMITTED. Under the others the statement is right too, but may fail with 40001.
--
-- Why this shape. seen is a plain read, so that an attempt on a held name takes no lock, no transaction id and writes
-- nothing. The gate is in the select list of a query whose only condition is that read: conditions come first, so it is
-- never tried on a held name, and once otherwise. It is an accelerator: were it always true, the row would still decide,
-- on the version that ON CONFLICT sees under the row lock. fence locks the fence's newest version before the lease is
-- written, and steps past one that is locked: an open fenced transaction makes us busy, not blocked. NO KEY, so that a foreign
-- key to the fence does not.
--
-- durable: a grant that a crash forgets would be granted again. Where commits do not wait for the disk, this one does.
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
seen AS MATERIALIZED (
    SELECT
        l.holder,
        l.label,
        l.token,
        l.expires_at IS NOT NULL AS unreleased,
        (extract(epoch FROM l.expires_at - clock_timestamp())::numeric * 1000000::numeric)::bigint AS remaining
    FROM {schema}.pglock_leases AS l
    WHERE l.name = $1::text
),
gate AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock($4::bigint) AS opened
    WHERE NOT EXISTS (SELECT FROM seen WHERE remaining > 0)
),
fence AS MATERIALIZED (
    SELECT f.token
    FROM {schema}.job_fences AS f
    WHERE f.name = $1::text
        AND EXISTS (SELECT FROM gate WHERE opened)
    FOR NO KEY UPDATE SKIP LOCKED
),
epoch AS MATERIALIZED (
    SELECT
        coalesce(e.base, 0) + c.timeline - 1 AS epoch,
        coalesce(e.base, 0) + 1024 AS beyond,
        c.system_identifier <> 0 AS known
    FROM cluster AS c
    LEFT JOIN {schema}.pglock_epochs AS e ON e.system_identifier = c.system_identifier
    WHERE c.system_identifier = 0
        OR (
            e.base IS NOT NULL
            AND NOT EXISTS (
                SELECT
                FROM {schema}.pglock_epochs AS other
                WHERE other.system_identifier NOT IN (0, c.system_identifier)
                    AND other.base >= e.base
            )
        )
),
last AS MATERIALIZED (
    SELECT greatest((SELECT token FROM seen), (SELECT token FROM fence), 0) AS token
    WHERE EXISTS (SELECT FROM gate WHERE opened)
        AND (
            EXISTS (SELECT FROM fence)
            OR NOT EXISTS (SELECT FROM {schema}.job_fences WHERE name = $1::text)
        )
),
granted AS (
    INSERT INTO {schema}.pglock_leases AS l (
        name, token, holder, label, metadata, acquired_at, renewed_at, expires_at
    )
    SELECT
        $1::text,
        greatest(last.token, epoch.epoch << 32) + 1,
        $2::text::uuid,
        $5::text,
        $6::text::jsonb,
        t.clock,
        t.clock,
        t.clock + $3::bigint::double precision * interval '1 microsecond'
    FROM last
    CROSS JOIN epoch
    CROSS JOIN durable
    CROSS JOIN (SELECT clock_timestamp() AS clock) AS t
    WHERE last.token >> 32 <= epoch.epoch
        OR NOT epoch.known
    ON CONFLICT (name) DO UPDATE SET
        token = greatest(l.token + 1, EXCLUDED.token),
        holder = EXCLUDED.holder,
        label = EXCLUDED.label,
        metadata = EXCLUDED.metadata,
        acquired_at = clock_timestamp(),
        renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + $3::bigint::double precision * interval '1 microsecond'
    WHERE l.expires_at IS NULL
        OR l.expires_at <= clock_timestamp()
    RETURNING
        l.token,
        (extract(epoch FROM l.expires_at - clock_timestamp())::numeric * 1000000::numeric)::bigint AS remaining
),
raised AS (
    INSERT INTO {schema}.job_fences AS f (name, token, raised_at)
    SELECT $1::text, token, clock_timestamp()
    FROM granted
    ON CONFLICT (name) DO UPDATE SET
        token = EXCLUDED.token,
        raised_at = clock_timestamp()
    WHERE f.token < EXCLUDED.token
    RETURNING f.token
)
SELECT
    CASE
        WHEN EXISTS (SELECT FROM raised) THEN 'granted'
        WHEN g.token IS NOT NULL THEN 'outrun'
        WHEN s.remaining > 0 AND s.holder = $2::text::uuid THEN 'found'
        WHEN s.remaining > 0 THEN 'held'
        WHEN EXISTS (
            SELECT
            FROM epoch
            WHERE greatest(s.token, (SELECT token FROM fence), 0) >> 32 > epoch
                AND greatest(s.token, (SELECT token FROM fence), 0) >> 32 < beyond
                AND known
        ) THEN 'superseded'
        WHEN NOT EXISTS (
            SELECT
            FROM epoch
            WHERE greatest(s.token, (SELECT token FROM fence), 0) >> 32 <= epoch
                OR NOT known
        ) THEN 'unentered'
        ELSE 'busy'
    END AS outcome,
    coalesce(g.token, s.token, 0) AS token,
    coalesce(g.remaining, s.remaining, 0) AS remaining,
    coalesce(s.label, '') AS label,
    coalesce(g.token IS NOT NULL AND s.unreleased, false) AS took_over,
    coalesce(s.remaining, 0) AS remaining_before,
    current_setting('transaction_isolation') AS isolation
FROM (SELECT) AS one
LEFT JOIN seen AS s ON true
LEFT JOIN granted AS g ON true;
