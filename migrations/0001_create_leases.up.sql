-- Why: one row a name is the whole state of a lease: who holds it, since when, until when, under which token.
-- Rows stay when a lease is released, because the row carries the last token.
--
-- No index on expires_at: it would make every renewal a non-HOT update. fillfactor 50 leaves room for the new
-- version of a row beside the old one; autovacuum is told to come early because the table is small and hot.
-- LOGGED, always: an unlogged table comes back empty after a crash or on a promoted standby.
--
-- Plain SQL, atomic as one multi-statement query or inside one transaction, and safe to run again. Tables are
-- made in the first schema of search_path.
CREATE TABLE IF NOT EXISTS pglock_leases (
    name text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    holder uuid NOT NULL,
    label text NOT NULL DEFAULT '',
    metadata jsonb NOT NULL DEFAULT '{}',
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz,
    CONSTRAINT pglock_leases_pkey PRIMARY KEY (name),
    CONSTRAINT pglock_leases_name_length CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT pglock_leases_token_positive CHECK (token > 0),
    CONSTRAINT pglock_leases_expires_at_finite CHECK (isfinite(expires_at))
)
WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

COMMENT ON TABLE pglock_leases IS 'One row a lease name. Never delete rows while work is going on; to break a lease see the manual of pglock.';
COMMENT ON COLUMN pglock_leases.name IS 'What is claimed: 1 to 255 bytes of text.';
COMMENT ON COLUMN pglock_leases.token IS 'Fencing token of the last grant. Never lowered.';
COMMENT ON COLUMN pglock_leases.holder IS 'Random id of the last grant. Identity: renew and release compare it.';
COMMENT ON COLUMN pglock_leases.label IS 'Who holds it, for people. Never compared.';
COMMENT ON COLUMN pglock_leases.metadata IS 'What the holder says of itself, for people. Never compared.';
COMMENT ON COLUMN pglock_leases.acquired_at IS 'Start of the term, on this server''s clock.';
COMMENT ON COLUMN pglock_leases.renewed_at IS 'Last renewal, on this server''s clock.';
COMMENT ON COLUMN pglock_leases.expires_at IS 'End of the term unless renewed, on this server''s clock. NULL: free.';
