-- What became of each item a surgical run was asked for, as JSON: what was fetched, stored, skipped, and what failed.
ALTER TABLE sync_runs ADD COLUMN outcomes_json TEXT;
-- When the copy was brought up to date, which is before the run makes documents and vectors of it; NULL: it was not,
-- or the run is older than this column.
ALTER TABLE sync_runs ADD COLUMN mirrored_at BIGINT;
