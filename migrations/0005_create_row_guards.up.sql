-- Why: with one lock a customer, a table has rows of many fences, and one fence for the table would be the wrong one. A table
-- with guarded rows refuses to write a row unless the transaction has passed the fence of that row: a prefix and the row's key,
-- as in customer/42. The token of the last write stays in a column of the row, and a lower one is refused: so even where
-- job_fences was lost or restored from an older copy, a row is not written by an older holder than the last.
--
-- The SQLSTATEs are those of migration 4, and so are the reasons for DO, format and SECURITY DEFINER.
--
-- Plain SQL, atomic as one multi-statement query or inside one transaction, and safe to run again.
DO $do$
DECLARE
    home text := current_schema();
    pinned text := 'SET search_path = pg_catalog, pg_temp';
BEGIN
    -- %1$I is the schema, %2$L the head of its keys in pglock.passed.
    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %I.pglock_check_row_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L',
        home, pinned, pg_catalog.format($check$
DECLARE
    passed jsonb := coalesce(CAST(nullif(current_setting('pglock.passed', true), '') AS jsonb), '{}');
    version record;
    key text;
    keys text[] := '{}';
    stamp bigint;
    locked boolean;
    fence text;
    declared bigint;
    actual bigint;
    written bigint;
    state text;
    message text;
    hint text := 'Pass the fence of each row in this transaction before the write, outside of savepoints that are rolled back.';
BEGIN
    -- This runs as the owner of the library: no code of the table's types may. to_jsonb(row) calls their casts to json, and
    -- jsonb_populate_record the CHECK of the column's domain. And the text of these types depends on no setting.
    IF TG_LEVEL = 'ROW' THEN
        PERFORM FROM pg_attribute AS a, pg_attribute AS b
        WHERE a.attrelid = TG_RELID AND a.attname = TG_ARGV[1]
            AND a.atttypid = ANY ('{text, varchar, smallint, integer, bigint, uuid}'::regtype[]) AND a.attgenerated = ''
            AND b.attrelid = TG_RELID AND b.attname = TG_ARGV[2] AND b.atttypid = 'bigint'::regtype AND b.attgenerated = '';
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'LH001', MESSAGE = 'the columns of the guard were changed: guard again';
        END IF;
    END IF;
    IF TG_LEVEL = 'ROW' AND TG_OP <> 'INSERT' THEN
        EXECUTE format('SELECT CAST(($1).%%1$I AS text), ($1).%%2$I', TG_ARGV[1], TG_ARGV[2]) INTO key, written USING OLD;
        keys := keys || key;
    END IF;
    IF TG_LEVEL = 'ROW' AND TG_OP <> 'DELETE' THEN
        EXECUTE format('SELECT CAST(($1).%%1$I AS text)', TG_ARGV[1]) INTO key USING NEW;
        keys := keys || key;
    END IF;
    IF TG_LEVEL = 'STATEMENT' THEN
        state := 'LH001';
        message := 'no fence is that of all rows';
        hint := 'Take the guard off in the same transaction, or delete the rows.';
    END IF;
    FOREACH key IN ARRAY keys LOOP
        fence := TG_ARGV[0] || key;
        declared := CAST(passed ->> (%2$L || fence) AS bigint);
        actual := NULL;
        SELECT f.token INTO actual
        FROM %1$I.job_fences AS f
        WHERE f.name = fence
            AND f.token <= declared
        FOR SHARE;
        locked := FOUND;
        IF NOT locked THEN
            -- For the text only: what is not locked is no pass.
            SELECT f.token INTO actual FROM %1$I.job_fences AS f WHERE f.name = fence;
        END IF;
        CASE
            WHEN fence IS NULL THEN
                state := 'LH001';
                message := concat('a row without ', quote_ident(TG_ARGV[1]), ' has no fence');
            WHEN declared IS NULL THEN
                state := 'LH001';
                message := concat('this transaction has not passed the fence "', fence, '"');
            WHEN actual IS NULL OR actual < declared THEN
                state := 'LH003';
                message := concat('the fence "', fence, '" is ', coalesce('at ' || actual, 'missing'), ', not raised to token ', declared);
            WHEN NOT locked AND actual = declared THEN
                state := '40001';
                message := concat('the fence "', fence, '" was made while it was looked at');
                hint := 'Run the transaction again.';
            WHEN actual > declared THEN
                state := 'LH002';
                message := concat('token ', declared, ' for "', fence, '" is stale: the fence is at ', actual);
                hint := 'Roll back and do not try again with this token: somebody else was granted the name.';
            ELSE
                NULL;
        END CASE;
        EXIT WHEN state IS NOT NULL;
    END LOOP;
    IF state IS NULL AND TG_OP <> 'INSERT' THEN
        stamp := declared;
        declared := CAST(passed ->> (%2$L || TG_ARGV[0] || keys[1]) AS bigint);
        IF written > declared THEN
            state := 'LH002';
            message := concat('token ', declared, ' is stale: the row was written with ', written);
            hint := 'Roll back. If the fence was restored from an older copy, raise it above every token that is in use.';
        END IF;
    END IF;
    IF state IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = state,
            MESSAGE = concat(TG_OP, ' on ', quote_ident(TG_TABLE_SCHEMA), '.', quote_ident(TG_TABLE_NAME), ' refused: ', message),
            DETAIL = concat('Passed in this transaction: ', passed, '.'),
            HINT = hint,
            SCHEMA = TG_TABLE_SCHEMA,
            TABLE = TG_TABLE_NAME;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    -- Stamped here, so that no statement has to think of it.
    RETURN jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[2], coalesce(stamp, declared)));
END
$check$, home, quote_ident(home) || '.'));

    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %I.pglock_guard_rows(target regclass, fence_prefix text, key_column name, token_column name) '
            'RETURNS void LANGUAGE plpgsql %s AS %L',
        home, pinned, pg_catalog.format($guard$
DECLARE
    every record;
    present record;
BEGIN
    IF target IS NULL OR fence_prefix IS NULL OR octet_length(fence_prefix) > 254 OR key_column IS NULL OR token_column IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'pglock_guard_rows: a table, the start of the names of fences, a column with the key and one for the token are needed';
    END IF;
    PERFORM FROM pg_class AS c
    WHERE c.oid = target
        AND c.relkind IN ('r', 'p')
        AND NOT (
            c.relnamespace = CAST(%1$L AS regnamespace)
            AND (c.relname = 'job_fences' OR starts_with(c.relname, 'pglock_'))
        );
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'wrong_object_type',
            MESSAGE = concat('pglock_guard_rows: ', target, ' is no table, or one of this library');
    END IF;
    PERFORM FROM pg_attribute AS a WHERE a.attrelid = target AND a.attname = key_column AND a.attnum > 0;
    IF NOT FOUND OR key_column = token_column THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_column',
            MESSAGE = concat('pglock_guard_rows: ', target, ' has no column ', quote_ident(key_column), ' with the key');
    END IF;
    PERFORM FROM pg_attribute AS a
    WHERE a.attrelid = target
        AND a.attname = token_column
        AND a.attnum > 0
        AND a.atttypid = CAST('bigint' AS regtype);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_column',
            MESSAGE = concat('pglock_guard_rows: ', target, ' has no column ', quote_ident(token_column), ' of type bigint for the token');
    END IF;

    EXECUTE format('LOCK TABLE %%s IN SHARE ROW EXCLUSIVE MODE', target);
    FOR every IN
        WITH RECURSIVE family AS (
            SELECT CAST(target AS oid) AS relid, 0 AS depth
            UNION
            SELECT i.inhrelid, f.depth + 1
            FROM family AS f
            JOIN pg_inherits AS i ON i.inhparent = f.relid
        )
        SELECT CAST(c.oid AS regclass) AS relation
        FROM family AS f
        JOIN pg_class AS c ON c.oid = f.relid
        WHERE c.relkind IN ('r', 'p')
        GROUP BY c.oid
        ORDER BY min(f.depth), c.oid
    LOOP
        FOR present IN
            SELECT t.tgname, t.tgparentid
            FROM pg_trigger AS t
            WHERE t.tgrelid = every.relation
                AND t.tgfoid = CAST(%2$L AS regproc)
                AND t.tgparentid = 0
        LOOP
            EXECUTE format('DROP TRIGGER %%I ON %%s', present.tgname, every.relation);
        END LOOP;
        -- A partition has that of its parent.
        PERFORM FROM pg_trigger AS t WHERE t.tgrelid = every.relation AND t.tgfoid = CAST(%2$L AS regproc) AND t.tgtype & 1::smallint = 1;
        IF NOT FOUND THEN
            EXECUTE format(
                'CREATE TRIGGER pglock_guard_rows BEFORE INSERT OR UPDATE OR DELETE ON %%s FOR EACH ROW EXECUTE FUNCTION %%s(%%L, %%L, %%L)',
                every.relation, %2$L, fence_prefix, key_column, token_column);
        END IF;
        EXECUTE format(
            'CREATE TRIGGER pglock_guard_rows_truncate BEFORE TRUNCATE ON %%s FOR EACH STATEMENT EXECUTE FUNCTION %%s(%%L, %%L, %%L)',
            every.relation, %2$L, fence_prefix, key_column, token_column);
    END LOOP;
END
$guard$, quote_ident(home), quote_ident(home) || '.pglock_check_row_guard'));

    EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %I.pglock_check_row_guard() FROM PUBLIC', home);
END
$do$;

CREATE OR REPLACE VIEW pglock_row_guards AS
WITH RECURSIVE guards AS (
    SELECT
        t.tgrelid,
        -- Between the arguments, and after the last, is a zero byte.
        pg_catalog.convert_from(decode(pg_catalog.regexp_replace(encode(t.tgargs, 'hex'), '^((?:..)*?)00.*$', '\1'), 'hex'), getdatabaseencoding()) AS fence_prefix,
        t.tgtype & 1::smallint = 1 AS of_rows,
        t.tgtype IN (31, 34) AND t.tgqual IS NULL AND t.tgattr::text = '' AS whole,
        t.tgenabled IN ('O', 'A') AS enabled
    FROM pg_trigger AS t
    WHERE t.tgfoid = 'pglock_check_row_guard'::regproc::oid
),
below AS (
    SELECT i.inhrelid, g.fence_prefix
    FROM guards AS g
    JOIN pg_inherits AS i ON i.inhparent = g.tgrelid
    UNION
    SELECT i.inhrelid, b.fence_prefix
    FROM below AS b
    JOIN pg_inherits AS i ON i.inhparent = b.inhrelid
),
tables AS (
    SELECT tgrelid AS relid, fence_prefix FROM guards
    UNION
    SELECT inhrelid, fence_prefix FROM below
)
SELECT
    t.relid::regclass AS guarded,
    t.fence_prefix,
    CASE
        WHEN r.enabled IS NULL THEN 'it is a child of a guarded table and has no such guard: guard the parent again'
        WHEN NOT r.enabled THEN 'the trigger is disabled: nothing is refused'
        WHEN NOT r.whole THEN 'the trigger was changed: it does not fire at every write'
        WHEN s.enabled IS NULL OR NOT s.enabled OR NOT s.whole THEN 'TRUNCATE is not refused: guard the parent again'
    END AS problem
FROM tables AS t
LEFT JOIN guards AS r ON r.tgrelid = t.relid AND r.fence_prefix = t.fence_prefix AND r.of_rows
LEFT JOIN guards AS s ON s.tgrelid = t.relid AND s.fence_prefix = t.fence_prefix AND NOT s.of_rows;

COMMENT ON VIEW pglock_row_guards IS 'The tables with guarded rows, and what is wrong with each guard; NULL if nothing.';
COMMENT ON COLUMN pglock_row_guards.guarded IS 'The table.';
COMMENT ON COLUMN pglock_row_guards.fence_prefix IS 'Start of the names of its fences; the key of the row follows.';
COMMENT ON COLUMN pglock_row_guards.problem IS 'Why the guard does not do what it should; NULL if it does.';
COMMENT ON FUNCTION pglock_check_row_guard() IS 'Fired by tables with guarded rows: refuses a write of a row whose fence the transaction has not passed.';
COMMENT ON FUNCTION pglock_guard_rows(regclass, text, name, name) IS 'Puts each row of a table under a fence of its own: prefix and key. The token of the last write is kept in a column.';
