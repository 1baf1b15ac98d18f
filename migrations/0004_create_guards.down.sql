-- Takes the guards off all tables: from here on nothing refuses an unfenced write. Fails if this role may not change one of them.
DO $do$
DECLARE
    every record;
BEGIN
    FOR every IN
        SELECT CAST(t.tgrelid AS regclass) AS relation, t.tgname
        FROM pg_trigger AS t
        WHERE t.tgfoid = CAST(to_regprocedure(pg_catalog.format('%I.pglock_check_guard()', current_schema())) AS oid)
            AND t.tgparentid = 0
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', every.tgname, every.relation);
    END LOOP;
END
$do$;
DROP VIEW IF EXISTS pglock_guards;
DROP FUNCTION IF EXISTS pglock_unguard_table(regclass);
DROP FUNCTION IF EXISTS pglock_guard_table(regclass, text);
DROP FUNCTION IF EXISTS pglock_check_guard();
