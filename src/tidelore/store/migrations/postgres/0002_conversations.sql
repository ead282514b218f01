-- How far each kind of children of a parent was read. `synced_for`: read after that version had settled; `fetched_for`:
-- read at all. The partial indexes make 'what is due' cost what is due, whatever the length of history.
ALTER TABLE issues ADD COLUMN discussions_synced_for_updated_at BIGINT;
ALTER TABLE issues ADD COLUMN discussions_fetched_for_updated_at BIGINT;
ALTER TABLE issues ADD COLUMN discussions_sync_last_attempt_at BIGINT;
ALTER TABLE issues ADD COLUMN discussions_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN discussions_sync_last_error TEXT;
CREATE INDEX idx_issues_discussions_sync ON issues (project_id, updated_at, id)
    WHERE updated_at > COALESCE(discussions_synced_for_updated_at, -1);
CREATE INDEX idx_issues_discussions_verified ON issues (project_id, discussions_sync_last_attempt_at);

ALTER TABLE issues ADD COLUMN resource_events_synced_for_updated_at BIGINT;
ALTER TABLE issues ADD COLUMN resource_events_fetched_for_updated_at BIGINT;
ALTER TABLE issues ADD COLUMN resource_events_sync_last_attempt_at BIGINT;
ALTER TABLE issues ADD COLUMN resource_events_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE issues ADD COLUMN resource_events_sync_last_error TEXT;
CREATE INDEX idx_issues_resource_events_sync ON issues (project_id, updated_at, id)
    WHERE updated_at > COALESCE(resource_events_synced_for_updated_at, -1);
CREATE INDEX idx_issues_resource_events_verified ON issues (project_id, resource_events_sync_last_attempt_at);

ALTER TABLE merge_requests ADD COLUMN discussions_synced_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN discussions_fetched_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN discussions_sync_last_attempt_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN discussions_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN discussions_sync_last_error TEXT;
CREATE INDEX idx_mrs_discussions_sync ON merge_requests (project_id, updated_at, id)
    WHERE updated_at > COALESCE(discussions_synced_for_updated_at, -1);
CREATE INDEX idx_mrs_discussions_verified ON merge_requests (project_id, discussions_sync_last_attempt_at);

ALTER TABLE merge_requests ADD COLUMN resource_events_synced_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN resource_events_fetched_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN resource_events_sync_last_attempt_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN resource_events_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN resource_events_sync_last_error TEXT;
CREATE INDEX idx_mrs_resource_events_sync ON merge_requests (project_id, updated_at, id)
    WHERE updated_at > COALESCE(resource_events_synced_for_updated_at, -1);
CREATE INDEX idx_mrs_resource_events_verified ON merge_requests (project_id, resource_events_sync_last_attempt_at);

ALTER TABLE merge_requests ADD COLUMN closes_issues_synced_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN closes_issues_fetched_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN closes_issues_sync_last_attempt_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN closes_issues_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN closes_issues_sync_last_error TEXT;
CREATE INDEX idx_mrs_closes_issues_sync ON merge_requests (project_id, updated_at, id)
    WHERE updated_at > COALESCE(closes_issues_synced_for_updated_at, -1);
CREATE INDEX idx_mrs_closes_issues_verified ON merge_requests (project_id, closes_issues_sync_last_attempt_at);

ALTER TABLE merge_requests ADD COLUMN diffs_synced_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN diffs_fetched_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN diffs_sync_last_attempt_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN diffs_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN diffs_sync_last_error TEXT;
CREATE INDEX idx_mrs_diffs_sync ON merge_requests (project_id, updated_at, id)
    WHERE updated_at > COALESCE(diffs_synced_for_updated_at, -1);
CREATE INDEX idx_mrs_diffs_verified ON merge_requests (project_id, diffs_sync_last_attempt_at);

ALTER TABLE merge_requests ADD COLUMN reviewers_synced_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN reviewers_fetched_for_updated_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN reviewers_sync_last_attempt_at BIGINT;
ALTER TABLE merge_requests ADD COLUMN reviewers_sync_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE merge_requests ADD COLUMN reviewers_sync_last_error TEXT;
CREATE INDEX idx_mrs_reviewers_sync ON merge_requests (project_id, updated_at, id)
    WHERE updated_at > COALESCE(reviewers_synced_for_updated_at, -1);
CREATE INDEX idx_mrs_reviewers_verified ON merge_requests (project_id, reviewers_sync_last_attempt_at);

-- What a server with work item statuses tells of an issue.
ALTER TABLE issues ADD COLUMN status_name TEXT;
ALTER TABLE issues ADD COLUMN status_category TEXT;
ALTER TABLE issues ADD COLUMN status_color TEXT;
ALTER TABLE issues ADD COLUMN status_icon_name TEXT;
ALTER TABLE issues ADD COLUMN status_synced_for_updated_at BIGINT;
CREATE INDEX idx_issues_status_sync ON issues (project_id, updated_at, id)
    WHERE updated_at > COALESCE(status_synced_for_updated_at, -1);
CREATE INDEX idx_issues_status_name ON issues (project_id, status_name);

-- What lists are counted and ordered by, without a look at the rows.
CREATE INDEX idx_issues_live ON issues (updated_at, id, project_id, state) WHERE deleted_at IS NULL;
CREATE INDEX idx_issues_live_project ON issues (project_id, state, updated_at) WHERE deleted_at IS NULL;
CREATE INDEX idx_mrs_live ON merge_requests (updated_at, id, project_id, state) WHERE deleted_at IS NULL;
CREATE INDEX idx_mrs_live_project ON merge_requests (project_id, state, updated_at) WHERE deleted_at IS NULL;

CREATE INDEX idx_issues_payload ON issues (raw_payload_id);
CREATE INDEX idx_mrs_payload ON merge_requests (raw_payload_id);

CREATE TABLE discussions (
    id               BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    remote_id        TEXT NOT NULL,
    project_id       BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id         BIGINT REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id BIGINT REFERENCES merge_requests (id) ON DELETE CASCADE,
    noteable_type    TEXT NOT NULL CHECK (noteable_type IN ('Issue', 'MergeRequest')),
    individual_note  BIGINT NOT NULL CHECK (individual_note IN (0, 1)),
    first_note_at    BIGINT,
    last_note_at     BIGINT,
    last_seen_at     BIGINT NOT NULL,
    resolvable       BIGINT NOT NULL CHECK (resolvable IN (0, 1)),
    resolved         BIGINT NOT NULL CHECK (resolved IN (0, 1)),
    content_hash     BYTEA NOT NULL,
    raw_payload_id   BIGINT NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
);
CREATE INDEX idx_discussions_issue_id ON discussions (issue_id);
CREATE INDEX idx_discussions_mr_id ON discussions (merge_request_id);
CREATE INDEX idx_discussions_mr_resolved ON discussions (merge_request_id, resolved, resolvable);
CREATE INDEX idx_discussions_payload ON discussions (raw_payload_id);

CREATE TABLE notes (
    id                        BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    remote_id                 BIGINT NOT NULL,
    project_id                BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    discussion_id             BIGINT NOT NULL REFERENCES discussions (id) ON DELETE CASCADE,
    note_type                 TEXT,
    is_system                 BIGINT NOT NULL CHECK (is_system IN (0, 1)),
    author_username           TEXT,
    body                      TEXT NOT NULL,
    created_at                BIGINT NOT NULL,
    updated_at                BIGINT NOT NULL,
    last_seen_at              BIGINT NOT NULL,
    position                  BIGINT NOT NULL,
    resolvable                BIGINT NOT NULL CHECK (resolvable IN (0, 1)),
    resolved                  BIGINT NOT NULL CHECK (resolved IN (0, 1)),
    resolved_by               TEXT,
    resolved_at               BIGINT,
    position_old_path         TEXT,
    position_new_path         TEXT,
    position_old_line         BIGINT,
    position_new_line         BIGINT,
    position_type             TEXT,
    position_line_range_start BIGINT,
    position_line_range_end   BIGINT,
    position_base_sha         TEXT,
    position_start_sha        TEXT,
    position_head_sha         TEXT,
    raw_payload_id            BIGINT REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
);
CREATE INDEX idx_notes_discussion ON notes (discussion_id, position);
CREATE INDEX idx_notes_type ON notes (note_type);
CREATE INDEX idx_notes_author ON notes (author_username);
CREATE INDEX idx_notes_new_path_line ON notes (position_new_path, position_new_line)
    WHERE position_new_path IS NOT NULL;
CREATE INDEX idx_notes_old_path_line ON notes (position_old_path, position_old_line)
    WHERE position_old_path IS NOT NULL;
CREATE INDEX idx_notes_payload ON notes (raw_payload_id);

CREATE TABLE resource_state_events (
    id                      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    remote_id               BIGINT NOT NULL,
    project_id              BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id                BIGINT REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id        BIGINT REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username           TEXT,
    state                   TEXT NOT NULL,
    source_commit           TEXT,
    source_merge_request_id BIGINT,
    created_at              BIGINT NOT NULL,
    content_hash            BYTEA NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
);
CREATE INDEX idx_resource_state_events_issue ON resource_state_events (issue_id, created_at);
CREATE INDEX idx_resource_state_events_mr ON resource_state_events (merge_request_id, created_at);

CREATE TABLE resource_label_events (
    id                      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    remote_id               BIGINT NOT NULL,
    project_id              BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id                BIGINT REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id        BIGINT REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username           TEXT,
    action                  TEXT NOT NULL,
    label_name              TEXT,
    created_at              BIGINT NOT NULL,
    content_hash            BYTEA NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
);
CREATE INDEX idx_resource_label_events_issue ON resource_label_events (issue_id, created_at);
CREATE INDEX idx_resource_label_events_mr ON resource_label_events (merge_request_id, created_at);

CREATE TABLE resource_milestone_events (
    id                      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    remote_id               BIGINT NOT NULL,
    project_id              BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id                BIGINT REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id        BIGINT REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username           TEXT,
    action                  TEXT NOT NULL,
    milestone_title         TEXT,
    milestone_remote_id     BIGINT,
    created_at              BIGINT NOT NULL,
    content_hash            BYTEA NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
);
CREATE INDEX idx_resource_milestone_events_issue ON resource_milestone_events (issue_id, created_at);
CREATE INDEX idx_resource_milestone_events_mr ON resource_milestone_events (merge_request_id, created_at);

-- Issues a merge request closes when it is merged. They may belong to another project, or to another tracker.
CREATE TABLE mr_closes_issues (
    id                      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    merge_request_id        BIGINT NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    issue_key               TEXT NOT NULL,
    issue_remote_id         BIGINT,
    issue_iid               BIGINT,
    issue_project_remote_id BIGINT,
    reference               TEXT,
    title                   TEXT,
    web_url                 TEXT,
    content_hash            BYTEA NOT NULL,
    UNIQUE (merge_request_id, issue_key)
);
CREATE INDEX idx_mr_closes_issues_issue ON mr_closes_issues (issue_remote_id);

-- The files a merge request changes, for each head it had when they were read; the newest head is that of its row.
CREATE TABLE mr_file_changes (
    id               BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    merge_request_id BIGINT NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    project_id       BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    head_sha         TEXT NOT NULL,
    old_path         TEXT NOT NULL,
    new_path         TEXT NOT NULL,
    new_file         BIGINT NOT NULL CHECK (new_file IN (0, 1)),
    renamed_file     BIGINT NOT NULL CHECK (renamed_file IN (0, 1)),
    deleted_file     BIGINT NOT NULL CHECK (deleted_file IN (0, 1)),
    content_hash     BYTEA NOT NULL,
    UNIQUE (merge_request_id, head_sha, old_path, new_path)
);
CREATE INDEX idx_mr_file_changes_new_path ON mr_file_changes (project_id, new_path);
CREATE INDEX idx_mr_file_changes_old_path ON mr_file_changes (project_id, old_path);
