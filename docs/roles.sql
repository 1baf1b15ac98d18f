-- Grants of the roles in docs/security.md, for psql. Run as the role that owns the tables, after each "pglock migrate up":
--
--   psql -v ON_ERROR_STOP=1 -v schema=leases -v application=billing -v writer=billing_worker -v reader=monitoring -f docs/roles.sql
REVOKE CREATE ON SCHEMA :"schema" FROM PUBLIC;
GRANT USAGE ON SCHEMA :"schema" TO :"application", :"writer", :"reader";

-- Takes, renews and releases leases, and passes fences.
GRANT SELECT, INSERT, UPDATE (token, holder, label, metadata, acquired_at, renewed_at, expires_at)
    ON :"schema".pglock_leases TO :"application";
GRANT SELECT, INSERT, UPDATE (token, raised_at) ON :"schema".job_fences TO :"application";
GRANT SELECT, INSERT, UPDATE (base, entered_at) ON :"schema".pglock_epochs TO :"application";
GRANT SELECT ON :"schema".pglock_schema_migrations TO :"application";

-- Is handed a token by a holder, and passes its fence by ShareTx. UPDATE is what a row lock asks for; it cannot move a fence.
GRANT SELECT, UPDATE (raised_at) ON :"schema".job_fences TO :"writer";

-- Looks.
GRANT SELECT
    ON :"schema".pglock_leases, :"schema".job_fences, :"schema".pglock_epochs, :"schema".pglock_schema_migrations,
        :"schema".pglock_guards, :"schema".pglock_row_guards
    TO :"reader";
