-- Record: have the database write down what happens to leases, fences and fenced writes, in the transactions that do it, as
-- lines of a history. For tests only. Needs the tables of migrations in the schema.
--
-- The number of an event is drawn while its transaction holds the lock on the row of the lease or of the fence, which it keeps to
-- its commit. So numbers are in the order of commits. After a failover the record is that of the timeline that goes on: what was
-- lost is lost from it, too.
--
-- A write records itself at COMMIT, with the fence as it is then.
CREATE TABLE {schema}.recorded (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event jsonb NOT NULL
);

CREATE TABLE {schema}.writes (
    id text PRIMARY KEY,
    name text NOT NULL,
    token bigint NOT NULL
);

CREATE FUNCTION {schema}.us(at timestamptz) RETURNS bigint LANGUAGE sql AS $$
    SELECT (extract(epoch FROM at) * 1000000)::bigint
$$;

CREATE FUNCTION {schema}.version(l {schema}.pglock_leases) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object(
        'token', l.token, 'holder', l.holder, 'label', l.label, 'acquired', {schema}.us(l.acquired_at),
        'renewed', {schema}.us(l.renewed_at), 'expires', {schema}.us(l.expires_at)
    )
$$;

-- Up is the machine's clock, in steps of 10 ms.
CREATE FUNCTION {schema}.record(event jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO {schema}.recorded (event)
    VALUES (jsonb_strip_nulls(event || jsonb_build_object(
        'at', {schema}.us(clock_timestamp()), 'started', {schema}.us(statement_timestamp()),
        'up', (split_part(pg_read_file('/proc/uptime'), ' ', 1)::numeric * 1000000)::bigint,
        'xid', txid_current(), 'by', current_setting('application_name')
    )))
$$;

CREATE FUNCTION {schema}.record_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.record(jsonb_build_object(
        'kind', 'lease',
        'name', CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END,
        'token', CASE TG_OP WHEN 'DELETE' THEN OLD.token ELSE NEW.token END,
        'old', CASE TG_OP WHEN 'INSERT' THEN NULL ELSE {schema}.version(OLD) END,
        'new', CASE TG_OP WHEN 'DELETE' THEN NULL ELSE {schema}.version(NEW) END
    ));
    RETURN NULL;
END
$$;

CREATE TRIGGER record AFTER INSERT OR UPDATE OR DELETE ON {schema}.pglock_leases
FOR EACH ROW EXECUTE FUNCTION {schema}.record_lease();

CREATE FUNCTION {schema}.record_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.record(jsonb_build_object('kind', 'fence', 'name', NEW.name, 'token', NEW.token));
    RETURN NULL;
END
$$;

CREATE TRIGGER record AFTER INSERT OR UPDATE ON {schema}.job_fences
FOR EACH ROW EXECUTE FUNCTION {schema}.record_fence();

CREATE FUNCTION {schema}.record_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.record(jsonb_build_object('kind', 'write', 'name', NEW.name, 'token', NEW.token, 'write', NEW.id,
        'fence', (SELECT f.token FROM {schema}.job_fences AS f WHERE f.name = NEW.name)));
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER record AFTER INSERT ON {schema}.writes
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION {schema}.record_write();
