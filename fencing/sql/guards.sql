-- Guards: the tables that are guarded by a fence, or whose rows are by fences with names that start so.
--
--   $1 text  name of the fence, or start of the names
--
-- One row: a JSON array of objects with table, rows and problem, ordered by table.
--
-- Clock: none. Isolation: any.
SELECT coalesce(
    pg_catalog.json_agg(
        pg_catalog.json_build_object(
            'table', pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(c.relname)),
            'rows', g.of_rows,
            'problem', coalesce(g.problem, '')
        )
        ORDER BY n.nspname, c.relname, g.of_rows
    ),
    '[]'
)::text AS guards
FROM (
    SELECT guarded, problem, false AS of_rows
    FROM {schema}.pglock_guards
    WHERE fence = $1::text
    UNION ALL
    SELECT guarded, problem, true
    FROM {schema}.pglock_row_guards
    WHERE fence_prefix = $1::text
) AS g
JOIN pg_catalog.pg_class AS c ON c.oid = g.guarded::oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace;
