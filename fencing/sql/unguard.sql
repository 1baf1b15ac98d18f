-- Unguard: take the guard off a table, its partitions and its children.
--
--   $1 text  name of the fence
--   $2 text  table, written as in SQL
--
-- One row: done. 0 rows: the table is not guarded by this fence; nothing was changed.
--
-- Clock: none. Isolation: any.
SELECT true AS done
FROM (
    SELECT g.guarded
    FROM {schema}.pglock_guards AS g
    WHERE g.guarded = $2::text::regclass
        AND g.fence = $1::text
    LIMIT 1
) AS t
CROSS JOIN LATERAL {schema}.pglock_unguard_table(t.guarded);
