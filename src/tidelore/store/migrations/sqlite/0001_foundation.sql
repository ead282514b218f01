-- Projects and repositories of every forge.
CREATE TABLE projects (
    id          INTEGER PRIMARY KEY,
    source      TEXT NOT NULL,
    remote_id   INTEGER NOT NULL,
    path        TEXT NOT NULL,
    name        TEXT NOT NULL,
    web_url     TEXT,
    archived    INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    configured  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (source, remote_id)
) STRICT;
CREATE INDEX idx_projects_path ON projects (path);

-- One cursor per scope and surface, for all sources.
CREATE TABLE cursors (
    source            TEXT NOT NULL,
    surface           TEXT NOT NULL,
    scope             TEXT NOT NULL,
    project_id        INTEGER REFERENCES projects (id) ON DELETE CASCADE,
    watermark_at      INTEGER,
    watermark_id      TEXT,
    reading           TEXT,
    etag              TEXT,
    url               TEXT,
    bootstrap_complete INTEGER NOT NULL DEFAULT 0 CHECK (bootstrap_complete IN (0, 1)),
    census            TEXT NOT NULL DEFAULT '{}',
    verified_at       INTEGER,
    polled_at         INTEGER,
    updated_at        INTEGER NOT NULL,
    set_aside         TEXT,
    set_aside_at      INTEGER,
    PRIMARY KEY (source, surface, scope)
) STRICT, WITHOUT ROWID;

-- Spans of newest-first lists that are known to be incomplete.
CREATE TABLE gaps (
    source       TEXT NOT NULL,
    surface      TEXT NOT NULL,
    scope        TEXT NOT NULL,
    place        INTEGER NOT NULL,
    top_at       INTEGER,
    top_id       TEXT,
    resume_token TEXT,
    floor_at     INTEGER,
    opened_at    INTEGER NOT NULL,
    PRIMARY KEY (source, surface, scope, place)
) STRICT, WITHOUT ROWID;

-- The single-writer lock. A row without a holder is free; its generation only grows.
CREATE TABLE leases (
    name           TEXT PRIMARY KEY,
    generation     INTEGER NOT NULL,
    holder_host    TEXT,
    holder_pid     INTEGER,
    holder_started TEXT,
    command        TEXT NOT NULL,
    acquired_at    INTEGER NOT NULL,
    heartbeat_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The run ledger.
CREATE TABLE sync_runs (
    id                 INTEGER PRIMARY KEY,
    started_at         INTEGER NOT NULL,
    heartbeat_at       INTEGER NOT NULL,
    finished_at        INTEGER,
    status             TEXT NOT NULL
        CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled', 'crashed')),
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
    CHECK ((status = 'running') = (finished_at IS NULL))
) STRICT;
CREATE INDEX idx_sync_runs_mode_started ON sync_runs (mode, started_at DESC);
CREATE INDEX idx_sync_runs_status_phase_started ON sync_runs (status, phase, started_at DESC);

-- What could not be understood, and is asked for again until it can.
CREATE TABLE quarantine (
    source          TEXT NOT NULL,
    surface         TEXT NOT NULL,
    scope           TEXT NOT NULL,
    remote_key      TEXT NOT NULL,
    locator         TEXT,
    payload         BLOB NOT NULL,
    error           TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    first_seen_at   INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    next_attempt_at INTEGER,
    PRIMARY KEY (source, surface, scope, remote_key)
) STRICT, WITHOUT ROWID;

-- Payloads as they came. The content is its own address: the same bytes are stored once. The address starts with
-- the remote id, so that a page's payloads lie side by side instead of all over the index.
CREATE TABLE raw_payloads (
    id            INTEGER PRIMARY KEY,
    content_hash  BLOB NOT NULL,
    project_id    INTEGER REFERENCES projects (id) ON DELETE CASCADE,
    resource_type TEXT NOT NULL,
    remote_id     TEXT NOT NULL,
    encoding      TEXT NOT NULL CHECK (encoding IN ('identity', 'zstd')),
    payload       BLOB NOT NULL,
    fetched_at    INTEGER NOT NULL,
    UNIQUE (remote_id, content_hash)
) STRICT;

CREATE TABLE labels (
    id         INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    UNIQUE (project_id, name)
) STRICT;

CREATE TABLE issues (
    id                    INTEGER PRIMARY KEY,
    remote_id             INTEGER NOT NULL,
    project_id            INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    iid                   INTEGER NOT NULL,
    title                 TEXT NOT NULL,
    description           TEXT,
    state                 TEXT NOT NULL,
    author_username       TEXT,
    milestone_title       TEXT,
    due_date              TEXT,
    confidential          INTEGER NOT NULL DEFAULT 0 CHECK (confidential IN (0, 1)),
    discussion_locked     INTEGER NOT NULL DEFAULT 0 CHECK (discussion_locked IN (0, 1)),
    issue_type            TEXT,
    user_notes_count      INTEGER NOT NULL DEFAULT 0,
    time_estimate_seconds INTEGER NOT NULL DEFAULT 0,
    time_spent_seconds    INTEGER NOT NULL DEFAULT 0,
    references_short      TEXT,
    references_full       TEXT,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    closed_at             INTEGER,
    last_seen_at          INTEGER NOT NULL,
    deleted_at            INTEGER,
    web_url               TEXT,
    content_hash          BLOB NOT NULL,
    raw_payload_id        INTEGER NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
) STRICT;
CREATE INDEX idx_issues_project_updated ON issues (project_id, updated_at);
CREATE INDEX idx_issues_project_created ON issues (project_id, created_at);
CREATE INDEX idx_issues_project_iid ON issues (project_id, iid);
CREATE INDEX idx_issues_project_state ON issues (project_id, state);
CREATE INDEX idx_issues_author ON issues (author_username);

CREATE TABLE issue_labels (
    issue_id INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    label_id INTEGER NOT NULL REFERENCES labels (id) ON DELETE CASCADE,
    PRIMARY KEY (issue_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_issue_labels_label ON issue_labels (label_id);

CREATE TABLE issue_assignees (
    issue_id INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    username TEXT NOT NULL,
    PRIMARY KEY (issue_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_issue_assignees_username ON issue_assignees (username);

CREATE TABLE merge_requests (
    id                    INTEGER PRIMARY KEY,
    remote_id             INTEGER NOT NULL,
    project_id            INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    iid                   INTEGER NOT NULL,
    title                 TEXT NOT NULL,
    description           TEXT,
    state                 TEXT NOT NULL,
    draft                 INTEGER NOT NULL DEFAULT 0 CHECK (draft IN (0, 1)),
    author_username       TEXT,
    source_branch         TEXT,
    target_branch         TEXT,
    head_sha              TEXT,
    references_short      TEXT,
    references_full       TEXT,
    detailed_merge_status TEXT,
    merge_user_username   TEXT,
    milestone_title       TEXT,
    user_notes_count      INTEGER NOT NULL DEFAULT 0,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    merged_at             INTEGER,
    closed_at             INTEGER,
    last_seen_at          INTEGER NOT NULL,
    deleted_at            INTEGER,
    web_url               TEXT,
    content_hash          BLOB NOT NULL,
    raw_payload_id        INTEGER NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
) STRICT;
CREATE INDEX idx_mrs_project_updated ON merge_requests (project_id, updated_at);
CREATE INDEX idx_mrs_project_created ON merge_requests (project_id, created_at);
CREATE INDEX idx_mrs_project_iid ON merge_requests (project_id, iid);
CREATE INDEX idx_mrs_state ON merge_requests (project_id, state);
CREATE INDEX idx_mrs_author ON merge_requests (author_username);
CREATE INDEX idx_mrs_target_branch ON merge_requests (project_id, target_branch);
CREATE INDEX idx_mrs_source_branch ON merge_requests (project_id, source_branch);
CREATE INDEX idx_mrs_detailed_merge_status ON merge_requests (project_id, detailed_merge_status);
CREATE INDEX idx_mrs_draft ON merge_requests (project_id, draft);

CREATE TABLE mr_labels (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    label_id         INTEGER NOT NULL REFERENCES labels (id) ON DELETE CASCADE,
    PRIMARY KEY (merge_request_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_labels_label ON mr_labels (label_id);

CREATE TABLE mr_assignees (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    username         TEXT NOT NULL,
    PRIMARY KEY (merge_request_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_assignees_username ON mr_assignees (username);

CREATE TABLE mr_reviewers (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    username         TEXT NOT NULL,
    PRIMARY KEY (merge_request_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_reviewers_username ON mr_reviewers (username);

-- The name and columns under which the cursors of forge lists are documented.
CREATE VIEW sync_cursors AS
SELECT project_id,
       substr(surface, instr(surface, '.') + 1) AS resource_type,
       watermark_at                             AS updated_at_cursor,
       CASE WHEN watermark_id NOT GLOB '*[^0-9]*' THEN CAST(watermark_id AS INTEGER) END AS tie_breaker_id
FROM cursors
WHERE project_id IS NOT NULL;
