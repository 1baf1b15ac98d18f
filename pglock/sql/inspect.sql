-- Inspect: what the rows of these names say now. A plain read: no lock, no transaction id.
--
--   $1 text[]  names
--
-- One row for each name that has one: holder, label, token, and remaining, microseconds until it expires at the time
-- of reading: not positive if it has expired, NULL if the lease is free. A name without a row was never granted, or its
-- row was deleted.
--
-- Clock: clock_timestamp() of this server. Isolation: READ COMMITTED.
SELECT
    l.name,
    l.holder::text AS holder,
    l.label,
    l.token,
    (extract(epoch FROM l.expires_at - clock_timestamp())::numeric * 1000000::numeric)::bigint AS remaining
FROM {schema}.pglock_leases AS l
WHERE l.name = ANY ($1::text[]);
