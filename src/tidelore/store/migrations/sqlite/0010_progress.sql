-- How far a run that is under way is, for whoever looks from outside: so much is done, of so much if that is known, and
-- of what it was told last. NULL at the end of a run; one that crashed keeps its last word.
ALTER TABLE sync_runs ADD COLUMN progress_done INTEGER;
ALTER TABLE sync_runs ADD COLUMN progress_total INTEGER;
ALTER TABLE sync_runs ADD COLUMN progress_note TEXT;
