-- Takes the guards off the rows of all tables: from here on nothing refuses an unfenced write of them. The column with the tokens stays.
-- Fails if this role may not change one of the tables.
DO $do$
DECLARE
    every record;
BEGIN
    FOR every IN
        SELECT CAST(t.tgrelid AS regclass) AS relation, t.tgname
        FROM pg_trigger AS t
        WHERE t.tgfoid = CAST(to_regprocedure(pg_catalog.format('%I.pglock_check_row_guard()', current_schema())) AS oid)
            AND t.tgparentid = 0
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', every.tgname, every.relation);
    END LOOP;
END
$do$;
DROP VIEW IF EXISTS pglock_row_guards;
DROP FUNCTION IF EXISTS pglock_guard_rows(regclass, text, name, name);
DROP FUNCTION IF EXISTS pglock_check_row_guard();
