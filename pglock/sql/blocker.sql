-- Blocker: which sessions are in the gate of a name. For the text of an error only.
--
--   $1 bigint  key of the advisory gate
--
-- One row a session: its process id. 0 rows: the gate is free; what is in the way is a lock on a row.
--
-- Clock: none. Isolation: any.
SELECT l.pid
FROM pg_locks AS l
WHERE l.locktype = 'advisory'
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.objsubid = 1
    AND l.granted
    AND (l.classid::bigint << 32) | l.objid::bigint = $1::bigint
ORDER BY l.pid;
