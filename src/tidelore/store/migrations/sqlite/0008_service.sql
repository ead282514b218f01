-- What the service has to do, and how each of its jobs stands: for whoever looks from outside.
CREATE TABLE service_jobs (
    name                    TEXT PRIMARY KEY,
    source                  TEXT NOT NULL,
    kind                    TEXT NOT NULL,
    scope                   TEXT NOT NULL,
    state                   TEXT NOT NULL CHECK (state IN ('idle', 'running', 'backing_off', 'stopped')),
    due_at                  INTEGER,
    started_at              INTEGER,
    finished_at             INTEGER,
    succeeded_at            INTEGER,
    failures                INTEGER NOT NULL DEFAULT 0,
    last_error              TEXT,
    -- How old the last success may be; NULL: nothing becomes stale by this job.
    staleness_bound_seconds REAL,
    -- Over the whole life of the job, not of one process.
    requests                INTEGER NOT NULL DEFAULT 0,
    updated_at              INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
