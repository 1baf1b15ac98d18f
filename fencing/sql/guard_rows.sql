-- Guard rows: put each row of a table, its partitions and its children under a fence of its own.
--
--   $1 text  start of the names of the fences
--   $2 text  table, written as in SQL
--   $3 text  name of the column with the key
--   $4 text  name of the column for the token, a bigint
--
-- One row: done. A guard of rows that was there is replaced.
--
-- Clock: none.
-- Isolation: READ COMMITTED. Under the others a child that was added after the snapshot is not seen.
SELECT true AS done
FROM {schema}.pglock_guard_rows($2::text::regclass, $1::text, $3::text::name, $4::text::name);
