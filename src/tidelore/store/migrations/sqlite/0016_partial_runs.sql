-- A run that stored a part and could not read the rest ends as `partial`, like its exit code 7 says.
CREATE TABLE sync_runs_new (
    id                 INTEGER PRIMARY KEY,
    started_at         INTEGER NOT NULL,
    heartbeat_at       INTEGER NOT NULL,
    finished_at        INTEGER,
    status             TEXT NOT NULL
        CHECK (status IN ('running', 'succeeded', 'partial', 'failed', 'cancelled', 'crashed')),
    command            TEXT NOT NULL,
    mode               TEXT NOT NULL,
    phase              TEXT NOT NULL,
    note               TEXT,
    error              TEXT,
    surgical_iids_json TEXT,
    issues_fetched     INTEGER NOT NULL DEFAULT 0,
    mrs_fetched        INTEGER NOT NULL DEFAULT 0,
    issues_ingested    INTEGER NOT NULL DEFAULT 0,
    mrs_ingested       INTEGER NOT NULL DEFAULT 0,
    skipped_stale      INTEGER NOT NULL DEFAULT 0,
    docs_regenerated   INTEGER NOT NULL DEFAULT 0,
    docs_embedded      INTEGER NOT NULL DEFAULT 0,
    quarantined        INTEGER NOT NULL DEFAULT 0,
    requests           INTEGER NOT NULL DEFAULT 0,
    warnings_count     INTEGER NOT NULL DEFAULT 0,
    cancelled_at       INTEGER,
    holder_host        TEXT NOT NULL,
    holder_pid         INTEGER NOT NULL,
    holder_started     TEXT NOT NULL,
    outcomes_json      TEXT,
    mirrored_at        INTEGER,
    progress_done      INTEGER,
    progress_total     INTEGER,
    progress_note      TEXT,
    CHECK ((status = 'running') = (finished_at IS NULL))
) STRICT;
INSERT INTO sync_runs_new (id, started_at, heartbeat_at, finished_at, status, command, mode, phase, note, error, surgical_iids_json, issues_fetched, mrs_fetched, issues_ingested, mrs_ingested, skipped_stale, docs_regenerated, docs_embedded, quarantined, requests, warnings_count, cancelled_at, holder_host, holder_pid, holder_started, outcomes_json, mirrored_at, progress_done, progress_total, progress_note)
    SELECT id, started_at, heartbeat_at, finished_at, status, command, mode, phase, note, error, surgical_iids_json, issues_fetched, mrs_fetched, issues_ingested, mrs_ingested, skipped_stale, docs_regenerated, docs_embedded, quarantined, requests, warnings_count, cancelled_at, holder_host, holder_pid, holder_started, outcomes_json, mirrored_at, progress_done, progress_total, progress_note FROM sync_runs;
DROP TABLE sync_runs;
ALTER TABLE sync_runs_new RENAME TO sync_runs;
CREATE INDEX idx_sync_runs_mode_started ON sync_runs (mode, started_at DESC);
CREATE INDEX idx_sync_runs_status_phase_started ON sync_runs (status, phase, started_at DESC);
