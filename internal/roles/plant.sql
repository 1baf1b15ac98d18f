-- Plant: for every operator and function that is used here, one more in a schema that somebody else may create things in, for
-- arguments of types for which pg_catalog has none of exactly these. The parser prefers an exact match in any schema of
-- search_path to one of pg_catalog that needs a conversion, so a statement that leaves such a call to the search runs the code of
-- whoever made it, with the rights of whoever runs the statement. What is planted here says so and fails.
--
-- {schema} is that schema, {names} an array of the names of functions.
DO $plant$
DECLARE
    -- Operators for every pair of these.
    operands text[] := '{smallint,integer,bigint,numeric,double precision,text,name,"\"char\"",boolean,oid,regproc,regprocedure,regclass,regnamespace,interval,timestamptz,jsonb,json,uuid,uuid[],text[],bigint[],bytea}';
    operators text[] := '{+,-,*,=,<>,<,<=,>,>=,||,<<,>>,&,->>}';
    -- And functions for each of these alone, two of the first seven, and three of the first four.
    arguments text[] := '{text,name,bigint,integer,boolean,jsonb,bytea,"\"char\"",regclass,json,oid,interval,timestamptz,numeric,text[],uuid[],bigint[]}';
    l text;
    r text;
    o text;
    f record;
    planted int := 0;
BEGIN
    PERFORM set_config('check_function_bodies', 'off', true);
    FOREACH l IN ARRAY operands LOOP
        FOREACH r IN ARRAY operands LOOP
            FOREACH o IN ARRAY '{compare,compute}'::text[] LOOP
                EXECUTE pg_catalog.format(
                    'CREATE FUNCTION {schema}.%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', o, l, r,
                    CASE o WHEN 'compare' THEN 'boolean' ELSE l END,
                    pg_catalog.format('BEGIN RAISE EXCEPTION %L; END', pg_catalog.format('squatted: an operator for %s and %s', l, r)));
            END LOOP;
            FOREACH o IN ARRAY operators LOOP
                IF NOT EXISTS (
                    SELECT
                    FROM pg_operator AS p
                    WHERE p.oprname = o::name
                        AND p.oprleft = l::regtype::oid
                        AND p.oprright = r::regtype::oid
                        AND p.oprnamespace = 'pg_catalog'::regnamespace::oid
                ) THEN
                    EXECUTE pg_catalog.format(
                        'CREATE OPERATOR {schema}.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = {schema}.%s)', o, l, r,
                        CASE WHEN o IN ('=', '<>', '<', '<=', '>', '>=') THEN 'compare' ELSE 'compute' END);
                    planted := planted + 1;
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
    FOR f IN
        SELECT n.name, a.types, p.result
        FROM unnest({names}::text[]) AS n (name)
        CROSS JOIN LATERAL (
            SELECT
                array_agg(d.pronargs::int) AS counts,
                bool_or(d.provariadic <> 0) AS variadic,
                min(CASE WHEN t.typtype = 'p' THEN 'text' ELSE format_type(t.oid, NULL) END) AS result
            FROM pg_proc AS d
            JOIN pg_type AS t ON t.oid = d.prorettype
            WHERE d.proname = n.name::name
                AND d.pronamespace = 'pg_catalog'::regnamespace::oid
        ) AS p
        CROSS JOIN LATERAL (
            SELECT ARRAY[x] AS types FROM unnest(arguments) AS x
            UNION ALL
            SELECT ARRAY[x, y] FROM unnest(arguments[1:7]) AS x, unnest(arguments[1:7]) AS y
            UNION ALL
            SELECT ARRAY[x, y, z] FROM unnest(arguments[1:4]) AS x, unnest(arguments[1:4]) AS y, unnest(arguments[1:4]) AS z
        ) AS a
        WHERE (p.variadic OR cardinality(a.types) = ANY (p.counts))
            AND to_regprocedure(pg_catalog.format('pg_catalog.%I(%s)', n.name, array_to_string(a.types, ','))) IS NULL
    LOOP
        EXECUTE pg_catalog.format(
            'CREATE FUNCTION {schema}.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.name, array_to_string(f.types, ', '), f.result,
            pg_catalog.format('BEGIN RAISE EXCEPTION %L; END',
                pg_catalog.format('squatted: function %s(%s)', f.name, array_to_string(f.types, ', '))));
        planted := planted + 1;
    END LOOP;
    IF planted < 5000 THEN
        RAISE EXCEPTION 'only % were planted', planted;
    END IF;
END
$plant$;
