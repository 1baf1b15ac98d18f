-- Drops every fence. Stop all writers first: without the fence nothing refuses a stale holder.
DROP TABLE IF EXISTS job_fences;
