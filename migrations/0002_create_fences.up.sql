-- Why: the protected data needs the highest token ever granted beside it, so that a write can be refused in the
-- transaction that makes it. A grant raises the row of its own name in the granting statement.
--
-- Plain SQL, atomic as one multi-statement query or inside one transaction, and safe to run again.
CREATE TABLE IF NOT EXISTS job_fences (
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT job_fences_pkey PRIMARY KEY (name),
    CONSTRAINT job_fences_name_length CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT job_fences_token_not_negative CHECK (token >= 0)
)
WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

COMMENT ON TABLE job_fences IS 'Highest token granted or accepted, one row a resource. A write with a lower token is stale.';
COMMENT ON COLUMN job_fences.name IS 'The resource; a lease raises the row of its own name.';
COMMENT ON COLUMN job_fences.token IS 'Highest token granted or accepted. Never lower or delete it by hand: a stale holder could write again.';
COMMENT ON COLUMN job_fences.raised_at IS 'When the row was last written, on this server''s clock.';
