-- What the service has to do, and how each of its jobs stands: for whoever looks from outside.
CREATE TABLE service_jobs (
    name                    TEXT PRIMARY KEY,
    source                  TEXT NOT NULL,
    kind                    TEXT NOT NULL,
    scope                   TEXT NOT NULL,
    state                   TEXT NOT NULL CHECK (state IN ('idle', 'running', 'backing_off', 'stopped')),
    due_at                  BIGINT,
    started_at              BIGINT,
    finished_at             BIGINT,
    succeeded_at            BIGINT,
    failures                BIGINT NOT NULL DEFAULT 0,
    last_error              TEXT,
    -- How old the last success may be; NULL: nothing becomes stale by this job.
    staleness_bound_seconds DOUBLE PRECISION,
    -- Over the whole life of the job, not of one process.
    requests                BIGINT NOT NULL DEFAULT 0,
    updated_at              BIGINT NOT NULL
);
