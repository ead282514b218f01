-- A run that stored a part and could not read the rest ends as `partial`, like its exit code 7 says.
ALTER TABLE sync_runs DROP CONSTRAINT sync_runs_status_check;
ALTER TABLE sync_runs ADD CONSTRAINT sync_runs_status_check
    CHECK (status IN ('running', 'succeeded', 'partial', 'failed', 'cancelled', 'crashed'));
