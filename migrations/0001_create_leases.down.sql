-- Drops every lease with its last token. A later install starts again from the fences, if they were kept.
DROP TABLE IF EXISTS pglock_leases;
