-- Bound: keep a process that stops in the middle of its transaction from keeping the fence locked.
--
--   $1 text  milliseconds
--
-- One row for each setting that was none or longer, and is $1 now, until the transaction ends; shorter ones stay. 0 rows: all
-- were shorter.
--
-- statement_timeout bounds what the server is doing, waits for locks included, idle_in_transaction_session_timeout the time
-- that it waits for the process, and transaction_timeout both together, from PostgreSQL 17 on. None of them ends a session that
-- waits for a process to read its result: tcp_user_timeout does, where the server's system has it (Linux) and the
-- connection is TCP; elsewhere it stays 0. It is the one that is shown without its unit.
--
-- Clock: none. Isolation: any.
SELECT set_config(s.name, $1::text || 'ms', true)
FROM (
    VALUES
        ('statement_timeout', ''),
        ('idle_in_transaction_session_timeout', ''),
        ('transaction_timeout', ''),
        ('tcp_user_timeout', 'ms')
) AS s (name, unit)
WHERE (extract(epoch FROM (current_setting(s.name, true) || s.unit)::interval)::numeric * 1000::numeric)::bigint
    NOT BETWEEN 1::bigint AND $1::text::bigint;
