-- Guards: the tables that are guarded by a fence.
--
--   $1 text  name of the fence
--
-- One row: a JSON array of objects with table and problem, ordered by table.
--
-- Clock: none. Isolation: any.
SELECT coalesce(
    json_agg(
        json_build_object('table', concat(quote_ident(n.nspname), '.', quote_ident(c.relname)), 'problem', coalesce(g.problem, ''))
        ORDER BY n.nspname, c.relname
    ),
    '[]'
)::text AS guards
FROM {schema}.pglock_guards AS g
JOIN pg_catalog.pg_class AS c ON c.oid = g.guarded
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE g.fence = $1::text;
