-- Guard: put a table, its partitions and its children under a fence.
--
--   $1 text  name of the fence
--   $2 text  table, written as in SQL
--
-- One row: done. Of a table that is guarded by this fence already, what is missing is added.
--
-- Clock: none.
-- Isolation: READ COMMITTED. Under the others a partition that was added after the snapshot is not seen.
SELECT true AS done
FROM {schema}.pglock_guard_table($2::text::regclass, $1::text);
