-- Why: a check in the application is forgotten sooner or later. A guarded table refuses, in the database, each statement
-- of a transaction that did not pass the table's fence, and says so with an SQLSTATE of its own:
--
--   LH001  the transaction has not passed the fence
--   LH002  it declares a token below the fence: stale
--   LH003  there is no such fence, or it is below the declared token: not raised
--
-- A check of package fencing declares what it passed in pglock.passed, a setting of the transaction, in the statement
-- that locks the fence: {"public.job": 7}, the key being quote_ident(schema), a dot and the name. ROLLBACK TO SAVEPOINT
-- undoes the lock and the declaration together. A guard does not trust it: it looks at the fence's newest version under
-- the shared row lock, which stays until COMMIT.
--
-- The functions name the schema in their text, because a guard is fired under the search_path of whoever writes. Hence
-- DO and format. SECURITY DEFINER: the role that writes, and the owner of a table that a foreign key cascades to,
-- need no privilege on job_fences for the guard. EXECUTE is not PUBLIC: with it, any role could keep a fence locked by a
-- table of its own.
--
-- Plain SQL, atomic as one multi-statement query or inside one transaction, and safe to run again.
DO $do$
DECLARE
    home text := current_schema();
    pinned text := 'SET search_path = pg_catalog, pg_temp';
BEGIN
    -- %1$I is the schema, %2$L the head of its keys in pglock.passed.
    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %I.pglock_check_guard() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER %s AS %L',
        home, pinned, pg_catalog.format($check$
DECLARE
    fence text := TG_ARGV[0];
    passed text := current_setting('pglock.passed', true);
    declared bigint := CAST(CAST(nullif(passed, '') AS jsonb) ->> (%2$L || TG_ARGV[0]) AS bigint);
    actual bigint;
    refused text := concat(TG_OP, ' on ', quote_ident(TG_TABLE_SCHEMA), '.', quote_ident(TG_TABLE_NAME), ' refused: ');
    state text;
    message text;
    hint text;
BEGIN
    IF declared IS NOT NULL THEN
        -- As in the shared check: the condition keeps a stale writer from locking the row.
        SELECT f.token INTO actual
        FROM %1$I.job_fences AS f
        WHERE f.name = fence
            AND f.token <= declared
        FOR SHARE;
        IF actual = declared THEN
            RETURN NULL;
        END IF;
        IF actual IS NULL THEN
            -- Newer than the row version that was refused, but for the text only.
            SELECT f.token INTO actual FROM %1$I.job_fences AS f WHERE f.name = fence;
        END IF;
    END IF;
    CASE
        WHEN declared IS NULL THEN
            state := 'LH001';
            message := concat(refused, 'this transaction has not passed the fence "', fence, '"');
            hint := 'Pass the fence in this transaction before the write, outside of savepoints that are rolled back.';
        WHEN actual > declared THEN
            state := 'LH002';
            message := concat(refused, 'token ', declared, ' for "', fence, '" is stale: the fence is at ', actual);
            hint := 'Roll back and do not try again with this token: somebody else was granted the name.';
        WHEN actual = declared THEN
            -- It was made between the two looks, and is not locked.
            state := '40001';
            message := concat(refused, 'the fence "', fence, '" was made while it was looked at');
            hint := 'Run the transaction again.';
        WHEN actual IS NULL THEN
            state := 'LH003';
            message := concat(refused, 'there is no fence "', fence, '"');
            hint := 'The first grant of the name makes it. If it was deleted, restore it with a token no lower than before.';
        ELSE
            state := 'LH003';
            message := concat(refused, 'the fence "', fence, '" is at ', actual, ', not raised to token ', declared);
            hint := 'Pass the fence with the form that raises it.';
    END CASE;
    RAISE EXCEPTION USING
        ERRCODE = state,
        MESSAGE = message,
        DETAIL = concat('Passed in this transaction: ', coalesce(nullif(passed, ''), 'nothing'), '.'),
        HINT = hint,
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME;
END
$check$, home, quote_ident(home) || '.'));

    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %I.pglock_guard_table(target regclass, fence text) RETURNS void LANGUAGE plpgsql %s AS %L',
        home, pinned, pg_catalog.format($guard$
DECLARE
    every record;
    present record;
    above regclass;
    below regclass;
    standby "char";
BEGIN
    IF target IS NULL OR fence IS NULL OR octet_length(fence) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'pglock_guard_table: a table and the name of a fence, of 1 to 255 bytes, are needed';
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
            MESSAGE = concat('pglock_guard_table: ', target, ' is no table, or one of this library');
    END IF;

    -- Writers that have begun are waited for, and no partition or child is added meanwhile.
    EXECUTE format('LOCK TABLE %%s IN SHARE ROW EXCLUSIVE MODE', target);
    -- A child may have more parents than the one that led to it.
    WITH RECURSIVE family AS (
        SELECT CAST(target AS oid) AS relid
        UNION
        SELECT i.inhrelid
        FROM family AS f
        JOIN pg_inherits AS i ON i.inhparent = f.relid
    )
    SELECT CAST(i.inhrelid AS regclass), CAST(i.inhparent AS regclass) INTO below, above
    FROM family AS f
    JOIN pg_inherits AS i ON i.inhrelid = f.relid
    WHERE i.inhparent NOT IN (SELECT m.relid FROM family AS m)
        AND NOT EXISTS (
            SELECT
            FROM pg_trigger AS t
            WHERE t.tgrelid = i.inhparent
                AND t.tgname = 'pglock_guard'
                AND t.tgfoid = CAST(%3$L AS regproc)
        )
    LIMIT 1;
    IF above IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'wrong_object_type',
            MESSAGE = concat('pglock_guard_table: ', below, ' is a partition or child of ', above, ', which is not guarded'),
            DETAIL = 'A statement that names the parent fires the triggers of the parent only.',
            HINT = concat('Guard ', above, ': that guards its partitions and children too.');
    END IF;

    FOR every IN
        WITH RECURSIVE family AS (
            SELECT CAST(target AS oid) AS relid, 0 AS depth
            UNION
            SELECT i.inhrelid, f.depth + 1
            FROM family AS f
            JOIN pg_inherits AS i ON i.inhparent = f.relid
        )
        SELECT CAST(c.oid AS regclass) AS relation, c.relkind, min(f.depth) AS depth
        FROM family AS f
        JOIN pg_class AS c ON c.oid = f.relid
        WHERE c.relkind IN ('r', 'p')
        GROUP BY c.oid, c.relkind
        ORDER BY min(f.depth), c.oid
    LOOP
        SELECT
            convert_from(substring(t.tgargs FROM 1 FOR octet_length(t.tgargs) - 1), getdatabaseencoding()) AS fence,
            t.tgtype = 62 AND t.tgqual IS NULL AND t.tgattr::text = '' AND t.tgenabled IN ('O', 'A') AS whole
        INTO present
        FROM pg_trigger AS t
        WHERE t.tgrelid = every.relation
            AND t.tgname = 'pglock_guard'
            AND t.tgfoid = CAST(%3$L AS regproc);
        IF present.fence <> fence THEN
            RAISE EXCEPTION USING
                ERRCODE = 'duplicate_object',
                MESSAGE = concat('pglock_guard_table: ', every.relation, ' is guarded by the fence "', present.fence, '"'),
                HINT = 'Unguard it first, in the same transaction.';
        END IF;
        IF NOT present.whole THEN
            EXECUTE format('DROP TRIGGER pglock_guard ON %%s', every.relation);
        END IF;
        IF present.whole IS NOT TRUE THEN
            EXECUTE format(
                'CREATE TRIGGER pglock_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %%s '
                    'FOR EACH STATEMENT EXECUTE FUNCTION %%s(%%L)',
                every.relation, %3$L, fence);
        END IF;

        -- The only trigger that a partition inherits is one for each row. It stands by for partitions that are added later, and is
        -- switched off where the guard itself is.
        SELECT t.tgenabled INTO standby
        FROM pg_trigger AS t
        WHERE t.tgrelid = every.relation
            AND t.tgname = 'pglock_guard_later';
        IF every.relkind = 'p' AND standby IS NULL THEN
            EXECUTE format(
                'CREATE TRIGGER pglock_guard_later AFTER INSERT OR UPDATE OR DELETE ON %%s FOR EACH ROW EXECUTE FUNCTION %%s(%%L)',
                every.relation, %3$L, fence);
        ELSIF every.relkind = 'r' AND standby <> 'D' THEN
            EXECUTE format('ALTER TABLE %%s DISABLE TRIGGER pglock_guard_later', every.relation);
        END IF;
    END LOOP;
END
$guard$, quote_ident(home), quote_ident(home) || '.', quote_ident(home) || '.pglock_check_guard'));

    EXECUTE pg_catalog.format(
        'CREATE OR REPLACE FUNCTION %I.pglock_unguard_table(target regclass) RETURNS void LANGUAGE plpgsql %s AS %L',
        home, pinned, pg_catalog.format($unguard$
DECLARE
    every record;
BEGIN
    FOR every IN
        WITH RECURSIVE family AS (
            SELECT CAST(target AS oid) AS relid
            UNION
            SELECT i.inhrelid
            FROM family AS f
            JOIN pg_inherits AS i ON i.inhparent = f.relid
        )
        SELECT CAST(t.tgrelid AS regclass) AS relation, t.tgname
        FROM family AS f
        JOIN pg_trigger AS t ON t.tgrelid = f.relid
        JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE p.pronamespace = CAST(%1$L AS regnamespace)
            AND p.proname IN ('pglock_check_guard', 'pglock_check_row_guard')
            AND t.tgparentid = 0
    LOOP
        EXECUTE format('DROP TRIGGER %%I ON %%s', every.tgname, every.relation);
    END LOOP;
END
$unguard$, quote_ident(home)));

    EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %I.pglock_check_guard() FROM PUBLIC', home);
END
$do$;

CREATE OR REPLACE VIEW pglock_guards AS
WITH RECURSIVE guards AS (
    SELECT
        t.tgrelid,
        pg_catalog.convert_from(substring(t.tgargs FROM 1 FOR octet_length(t.tgargs) - 1), getdatabaseencoding()) AS fence,
        t.tgtype = 62 AND t.tgqual IS NULL AND t.tgattr::text = '' AS whole,
        t.tgenabled IN ('O', 'A') AS enabled
    FROM pg_trigger AS t
    WHERE t.tgfoid = 'pglock_check_guard'::regproc::oid
        AND t.tgtype & 1::smallint = 0
),
below AS (
    SELECT i.inhrelid, g.fence
    FROM guards AS g
    JOIN pg_inherits AS i ON i.inhparent = g.tgrelid
    UNION
    SELECT i.inhrelid, b.fence
    FROM below AS b
    JOIN pg_inherits AS i ON i.inhparent = b.inhrelid
)
SELECT
    g.tgrelid::regclass AS guarded,
    g.fence,
    CASE
        WHEN NOT g.enabled THEN 'the trigger is disabled: nothing is refused'
        WHEN NOT g.whole THEN 'the trigger was changed: it does not fire at every write'
        WHEN above.inhparent IS NOT NULL THEN pg_catalog.concat('writes by way of ', above.inhparent::regclass, ' are not refused: it is not guarded')
        WHEN c.relkind = 'p' AND later.tgenabled IS NULL THEN 'the trigger pglock_guard_later is missing or disabled: partitions that are added are open'
    END AS problem
FROM guards AS g
JOIN pg_class AS c ON c.oid = g.tgrelid
LEFT JOIN pg_trigger AS later ON later.tgrelid = g.tgrelid
    AND later.tgfoid = 'pglock_check_guard'::regproc::oid
    AND later.tgtype & 1::smallint = 1
    AND later.tgenabled IN ('O', 'A')
LEFT JOIN LATERAL (
    SELECT i.inhparent
    FROM pg_inherits AS i
    WHERE i.inhrelid = g.tgrelid
        AND NOT EXISTS (SELECT FROM guards AS p WHERE p.tgrelid = i.inhparent AND p.fence = g.fence)
    LIMIT 1
) AS above ON true
UNION ALL
SELECT
    b.inhrelid::regclass,
    b.fence,
    'it is a partition or child of a guarded table and has no such guard: guard the parent again'
FROM below AS b
WHERE NOT EXISTS (SELECT FROM guards AS g WHERE g.tgrelid = b.inhrelid AND g.fence = b.fence);

COMMENT ON VIEW pglock_guards IS 'The guarded tables, and what is wrong with each guard; NULL if nothing.';
COMMENT ON COLUMN pglock_guards.guarded IS 'The table.';
COMMENT ON COLUMN pglock_guards.fence IS 'Name of the fence that a transaction has to pass before it writes to the table.';
COMMENT ON COLUMN pglock_guards.problem IS 'Why the guard does not do what it should; NULL if it does.';
COMMENT ON FUNCTION pglock_check_guard() IS 'Fired by guarded tables: refuses a write of a transaction that has not passed the fence.';
COMMENT ON FUNCTION pglock_guard_table(regclass, text) IS 'Puts a table, its partitions and its children under a fence. May be called again, after a partition was added.';
COMMENT ON FUNCTION pglock_unguard_table(regclass) IS 'Takes the guards off a table, its partitions and its children.';
