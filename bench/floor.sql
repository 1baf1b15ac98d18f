-- The floor: what a grant and a release cost at the least. One upsert of the lease that raises the fence, and one update
-- that frees it; no read first, no gate, no epoch, no answer to an attempt that asks twice. For pgbench.
\set name 1000000 + :client_id
\set holder random(1, 2000000000)
WITH granted AS (
    INSERT INTO pglock_leases AS l (name, token, holder, label, metadata, acquired_at, renewed_at, expires_at)
    VALUES (
        (:name)::text, 1, md5((:holder)::text)::uuid, 'bench', '{}',
        clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '60 s'
    )
    ON CONFLICT (name) DO UPDATE SET
        token = l.token + 1,
        holder = EXCLUDED.holder,
        label = EXCLUDED.label,
        metadata = EXCLUDED.metadata,
        acquired_at = clock_timestamp(),
        renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + interval '60 s'
    WHERE l.expires_at IS NULL
        OR l.expires_at <= clock_timestamp()
    RETURNING token
),
raised AS (
    INSERT INTO job_fences AS f (name, token)
    SELECT (:name)::text, token FROM granted
    ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token
    WHERE f.token < EXCLUDED.token
    RETURNING token
)
SELECT token FROM raised;
UPDATE pglock_leases SET expires_at = NULL WHERE name = (:name)::text AND holder = md5((:holder)::text)::uuid;
