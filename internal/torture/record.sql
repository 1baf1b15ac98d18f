-- Record: have the database write down what happens to leases, fences and fenced writes, in the transactions that do it.
-- For tests only. Needs the tables of migrations in the schema.
--
-- One table, one sequence. A row trigger draws the number of an event while its transaction holds the lock on the row of the
-- lease or of the fence, and the lock is kept to the commit. So the numbers of the events of one row are in the order of
-- commits, whatever the clocks say; and what is rolled back leaves nothing.
--
-- A fenced write records itself at COMMIT (a deferred constraint trigger), with the fence as it is then: if the check
-- holds its lock, nothing can be between check and commit; if it does not, this shows it.
--
-- Clock: clock_timestamp() for at; statement_timestamp(), when the statement arrived at the server, for started. up is the
-- machine's own clock in microseconds, in steps of 10 ms, which stays true when the server's is set; NULL where it cannot be read:
-- not on Linux, or not as a superuser.
DO $do$
BEGIN
    PERFORM pg_read_file('/proc/uptime', 0, 64);
    CREATE FUNCTION {schema}.torture_up() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$
        SELECT (split_part(pg_read_file('/proc/uptime', 0, 64), ' ', 1)::numeric * 1000000)::bigint
    $$;
EXCEPTION WHEN OTHERS THEN
    CREATE FUNCTION {schema}.torture_up() RETURNS bigint LANGUAGE sql AS 'SELECT NULL::bigint';
END
$do$;

CREATE TABLE {schema}.torture_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started timestamptz NOT NULL DEFAULT statement_timestamp(),
    up bigint DEFAULT {schema}.torture_up(),
    xid bigint NOT NULL DEFAULT txid_current(),
    by text NOT NULL DEFAULT current_setting('application_name'),
    name text NOT NULL,
    token bigint NOT NULL,
    fence bigint,
    write text,
    old {schema}.pglock_leases,
    new {schema}.pglock_leases
);

CREATE FUNCTION {schema}.torture_record_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.torture_events (kind, name, token, old, new)
    VALUES (
        'lease',
        CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END,
        CASE TG_OP WHEN 'DELETE' THEN OLD.token ELSE NEW.token END,
        CASE TG_OP WHEN 'INSERT' THEN NULL ELSE OLD END,
        CASE TG_OP WHEN 'DELETE' THEN NULL ELSE NEW END
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER torture_record AFTER INSERT OR UPDATE OR DELETE ON {schema}.pglock_leases
FOR EACH ROW EXECUTE FUNCTION {schema}.torture_record_lease();

CREATE FUNCTION {schema}.torture_record_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.torture_events (kind, name, token)
    VALUES ('fence', NEW.name, NEW.token);
    RETURN NULL;
END
$$;

CREATE TRIGGER torture_record AFTER INSERT OR UPDATE ON {schema}.job_fences
FOR EACH ROW EXECUTE FUNCTION {schema}.torture_record_fence();

CREATE TABLE {schema}.torture_writes (
    id text PRIMARY KEY,
    name text NOT NULL,
    token bigint NOT NULL
);

CREATE FUNCTION {schema}.torture_record_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.torture_events (kind, name, token, fence, write)
    VALUES ('write', NEW.name, NEW.token, (SELECT f.token FROM {schema}.job_fences AS f WHERE f.name = NEW.name), NEW.id);
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER torture_record AFTER INSERT ON {schema}.torture_writes
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION {schema}.torture_record_write();
