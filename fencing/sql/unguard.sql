-- Unguard: take the guards off a table, its partitions and its children.
--
--   $1 text  name of the fence, or start of the names
--   $2 text  table, written as in SQL
--
-- One row: done. 0 rows: the table is not guarded by this fence; nothing was changed.
--
-- Clock: none. Isolation: any.
SELECT true AS done
FROM (SELECT $2::text::regclass AS relation) AS t
CROSS JOIN LATERAL {schema}.pglock_unguard_table(t.relation)
WHERE EXISTS (SELECT FROM {schema}.pglock_guards AS g WHERE g.guarded::oid = t.relation::oid AND g.fence = $1::text)
    OR EXISTS (SELECT FROM {schema}.pglock_row_guards AS g WHERE g.guarded::oid = t.relation::oid AND g.fence_prefix = $1::text);
