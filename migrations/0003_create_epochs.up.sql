-- Why: tokens must rise although an asynchronous failover, a restore or a cut-over to another cluster loses the
-- last grants. The upper half of a token is an epoch: base + timeline - 1, where base is kept here, one row a
-- cluster that this database has lived on. The cluster of the first install gets base 0, so that tokens there are
-- 1, 2, 3 and so on; a cluster that is not in the table is entered by the next grant with a base above every epoch
-- in use. system_identifier 0 stands for a server that does not tell who it is.
--
-- Plain SQL, atomic as one multi-statement query or inside one transaction, and safe to run again.
CREATE TABLE IF NOT EXISTS pglock_epochs (
    system_identifier bigint NOT NULL,
    base bigint NOT NULL,
    entered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pglock_epochs_pkey PRIMARY KEY (system_identifier),
    CONSTRAINT pglock_epochs_base_range CHECK (base BETWEEN 0 AND 2147483647)
);

COMMENT ON TABLE pglock_epochs IS 'Base of the epoch, one row a cluster that this database has lived on.';
COMMENT ON COLUMN pglock_epochs.system_identifier IS 'As pg_control_system() tells it; 0 for a server that does not.';
COMMENT ON COLUMN pglock_epochs.base IS 'Epoch of timeline 1 on that cluster. Never lowered.';
COMMENT ON COLUMN pglock_epochs.entered_at IS 'When the row was last written, on this server''s clock.';
