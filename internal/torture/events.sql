-- Events: what record.sql had the database write down, in order, times in microseconds since 1970. No parameters.
SELECT
    e.kind,
    e.name,
    e.token,
    e.id AS seq,
    (extract(epoch FROM e.at) * 1000000)::bigint AS at,
    (extract(epoch FROM e.started) * 1000000)::bigint AS started,
    coalesce(e.up, 0) AS up,
    e.xid,
    e.by,
    coalesce(e.fence, 0) AS fence,
    coalesce(e.write, '') AS write,
    (e.old).token AS old_token,
    coalesce((e.old).holder::text, '') AS old_holder,
    coalesce((e.old).label, '') AS old_label,
    coalesce((extract(epoch FROM (e.old).acquired_at) * 1000000)::bigint, 0) AS old_acquired,
    coalesce((extract(epoch FROM (e.old).renewed_at) * 1000000)::bigint, 0) AS old_renewed,
    (extract(epoch FROM (e.old).expires_at) * 1000000)::bigint AS old_expires,
    (e.new).token AS new_token,
    coalesce((e.new).holder::text, '') AS new_holder,
    coalesce((e.new).label, '') AS new_label,
    coalesce((extract(epoch FROM (e.new).acquired_at) * 1000000)::bigint, 0) AS new_acquired,
    coalesce((extract(epoch FROM (e.new).renewed_at) * 1000000)::bigint, 0) AS new_renewed,
    (extract(epoch FROM (e.new).expires_at) * 1000000)::bigint AS new_expires
FROM {schema}.torture_events AS e
ORDER BY e.id;
