-- Drops the epochs: the next install takes its base from the tokens that are left.
DROP TABLE IF EXISTS pglock_epochs;
