-- The schema of version 0.1.0 for SQLite and PostgreSQL. `store/database/migrate.py` translates the types and the four
-- functions ISO_TIME, ISO_SECOND, AS_NUMBER and FIND; what the dialects do not share (full text, vectors) is in the
-- files beside this one. docs/reference/schema.md is generated from the comments: one above each table, one per column.
-- Times are integer milliseconds UTC. Flags are 0 or 1.

-- Projects and repositories of every forge.
CREATE TABLE projects (
    id         INTEGER PRIMARY KEY,
    source     TEXT NOT NULL,                                            -- name of the host in the configuration
    remote_id  INTEGER NOT NULL,                                         -- the forge's own number
    path       TEXT NOT NULL,                                            -- present path, such as group/project
    name       TEXT NOT NULL,
    web_url    TEXT,
    archived   INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    configured TEXT NOT NULL,                                            -- name by which the configuration or a group brought it
    node_id    TEXT,                                                     -- global id, where the forge has one
    has_topics INTEGER NOT NULL DEFAULT 0 CHECK (has_topics IN (0, 1)),  -- Discussions are switched on
    members_at INTEGER,                                                  -- its members were last read; NULL: never
    created_at INTEGER NOT NULL,                                         -- first stored here
    updated_at INTEGER NOT NULL,                                         -- last confirmed by the forge
    UNIQUE (source, remote_id)
) STRICT;
CREATE INDEX idx_projects_path ON projects (path);

-- Who has access to a project, where the forge does not say it with each comment.
CREATE TABLE project_members (
    project_id   INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    username     TEXT NOT NULL,
    access_level INTEGER NOT NULL,                                       -- of the forge: 50 owner, 30 and above may write
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (project_id, username)
) STRICT;

-- Reading position of each remote list: one row per scope and surface, for all sources.
CREATE TABLE cursors (
    source             TEXT NOT NULL,
    surface            TEXT NOT NULL,                                    -- the list, such as gitlab.issues
    scope              TEXT NOT NULL,                                    -- what it is listed for: project number, repository, DID
    project_id         INTEGER REFERENCES projects (id) ON DELETE CASCADE,
    watermark_at       INTEGER,                                          -- update time up to which the list is complete
    watermark_id       TEXT,                                             -- id of the last item at that time
    reading            TEXT,                                             -- window of a walk by update time or id (JSON)
    log_position       TEXT,                                             -- resume keys of a list in order of writing (JSON)
    etag               TEXT,                                             -- validator of the last complete one-page answer
    url                TEXT,                                             -- full address the validator belongs to
    bootstrap_complete INTEGER NOT NULL DEFAULT 0 CHECK (bootstrap_complete IN (0, 1)), -- the first reading came to its end
    census             TEXT NOT NULL DEFAULT '{}',                       -- how far the verification has come (JSON)
    horizon_at         INTEGER,                                          -- items last updated before it are left out; null: none
    verified_at        INTEGER,                                          -- start of the last complete verification
    polled_at          INTEGER,                                          -- last answer
    updated_at         INTEGER NOT NULL,
    set_aside          TEXT,                                             -- an invalid cursor that was replaced (JSON)
    set_aside_at       INTEGER,
    PRIMARY KEY (source, surface, scope)
) STRICT, WITHOUT ROWID;

-- Spans of newest-first lists that are known to be incomplete.
CREATE TABLE gaps (
    source       TEXT NOT NULL,
    surface      TEXT NOT NULL,
    scope        TEXT NOT NULL,
    place        INTEGER NOT NULL,                                       -- 0 is the newest gap
    top_at       INTEGER,                                                -- newest item above the gap
    top_id       TEXT,
    resume_token TEXT,                                                   -- the server's token to go on at
    floor_at     INTEGER,                                                -- where the gap ends
    opened_at    INTEGER NOT NULL,
    PRIMARY KEY (source, surface, scope, place)
) STRICT, WITHOUT ROWID;

-- Locks that allow a single writer. A row without a holder is free.
CREATE TABLE leases (
    name           TEXT PRIMARY KEY,
    generation     INTEGER NOT NULL,                                     -- grows with every holder; rejects writes of earlier ones
    holder_host    TEXT,
    holder_pid     INTEGER,
    holder_started TEXT,                                                 -- machine, boot, pid namespace and start time
    holder_session TEXT,                                                 -- PostgreSQL: application_name of its connection
    command        TEXT NOT NULL,
    acquired_at    INTEGER NOT NULL,
    heartbeat_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_leases_held ON leases (name) WHERE holder_host IS NOT NULL;

-- Ledger of runs: one row per command that writes.
CREATE TABLE sync_runs (
    id                 INTEGER PRIMARY KEY,
    started_at         INTEGER NOT NULL,
    heartbeat_at       INTEGER NOT NULL,
    finished_at        INTEGER,
    status             TEXT NOT NULL
        CHECK (status IN ('running', 'succeeded', 'partial', 'failed', 'cancelled', 'crashed')),
    command            TEXT NOT NULL,
    mode               TEXT NOT NULL,                                    -- standard or surgical
    phase              TEXT NOT NULL,
    note               TEXT,
    error              TEXT,
    surgical_iids_json TEXT,                                             -- items a surgical run was asked for
    outcomes_json      TEXT,                                             -- result of each of them
    issues_fetched     INTEGER NOT NULL DEFAULT 0,
    mrs_fetched        INTEGER NOT NULL DEFAULT 0,
    issues_ingested    INTEGER NOT NULL DEFAULT 0,
    mrs_ingested       INTEGER NOT NULL DEFAULT 0,
    skipped_stale      INTEGER NOT NULL DEFAULT 0,                       -- fetched, but older than the stored row
    docs_regenerated   INTEGER NOT NULL DEFAULT 0,
    docs_embedded      INTEGER NOT NULL DEFAULT 0,
    quarantined        INTEGER NOT NULL DEFAULT 0,
    requests           INTEGER NOT NULL DEFAULT 0,
    warnings_count     INTEGER NOT NULL DEFAULT 0,
    cancelled_at       INTEGER,
    mirrored_at        INTEGER,                                          -- when the copy was up to date, before documents and vectors
    progress_done      INTEGER,                                          -- of a run under way: items done
    progress_total     INTEGER,                                          -- of how many, where that is known
    progress_note      TEXT,
    holder_host        TEXT NOT NULL,
    holder_pid         INTEGER NOT NULL,
    holder_started     TEXT NOT NULL,
    CHECK ((status = 'running') = (finished_at IS NULL))
) STRICT;
CREATE INDEX idx_sync_runs_mode_started ON sync_runs (mode, started_at DESC);
CREATE INDEX idx_sync_runs_status_phase_started ON sync_runs (status, phase, started_at DESC);

-- Items that could not be parsed, with their payload; fetched again until they can.
CREATE TABLE quarantine (
    source          TEXT NOT NULL,
    surface         TEXT NOT NULL,
    scope           TEXT NOT NULL,
    remote_key      TEXT NOT NULL,
    locator         TEXT,                                                -- how to ask for it alone
    payload         BLOB NOT NULL,
    error           TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    first_seen_at   INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    next_attempt_at INTEGER,
    PRIMARY KEY (source, surface, scope, remote_key)
) STRICT, WITHOUT ROWID;

-- Zstandard dictionaries that payloads are packed with. A dictionary holds the field names and the words that many
-- payloads of its project and type share. It is never changed.
CREATE TABLE payload_dictionaries (
    id            INTEGER PRIMARY KEY,
    project_id    INTEGER REFERENCES projects (id) ON DELETE CASCADE,
    resource_type TEXT NOT NULL,
    content_hash  BLOB NOT NULL,
    dictionary    BLOB NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_payload_dictionaries_type ON payload_dictionaries (project_id, resource_type);

-- Remote objects as they were received. The same bytes are stored once. `lore payload` prints them.
CREATE TABLE raw_payloads (
    id            INTEGER PRIMARY KEY,
    content_hash  BLOB NOT NULL,
    project_id    INTEGER REFERENCES projects (id) ON DELETE CASCADE,
    resource_type TEXT NOT NULL,
    remote_id     TEXT NOT NULL,
    encoding      TEXT NOT NULL CHECK (encoding IN ('identity', 'zstd')),
    payload       BLOB NOT NULL,
    fetched_at    INTEGER NOT NULL,
    dictionary_id INTEGER REFERENCES payload_dictionaries (id),          -- the dictionary to decompress it with
    UNIQUE (remote_id, content_hash)                                     -- the id first, so that a page's payloads lie side by side
) STRICT;

-- Labels of each project.
CREATE TABLE labels (
    id         INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    UNIQUE (project_id, name)
) STRICT;

-- Issues of every forge.
CREATE TABLE issues (
    id                    INTEGER PRIMARY KEY,
    remote_id             INTEGER NOT NULL,
    project_id            INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    iid                   INTEGER NOT NULL,                              -- number inside the project
    title                 TEXT NOT NULL,
    description           TEXT,
    state                 TEXT NOT NULL,                                 -- opened or closed
    author_username       TEXT,
    milestone_title       TEXT,
    due_date              TEXT,
    confidential          INTEGER NOT NULL DEFAULT 0 CHECK (confidential IN (0, 1)),
    discussion_locked     INTEGER NOT NULL DEFAULT 0 CHECK (discussion_locked IN (0, 1)),
    issue_type            TEXT,
    user_notes_count      INTEGER NOT NULL DEFAULT 0,                    -- comments, as the forge counts them
    time_estimate_seconds INTEGER NOT NULL DEFAULT 0,
    time_spent_seconds    INTEGER NOT NULL DEFAULT 0,
    references_short      TEXT,
    references_full       TEXT,
    status_name           TEXT,                                          -- work item status, where the server has one
    status_category       TEXT,
    status_color          TEXT,
    status_icon_name      TEXT,
    state_reason          TEXT,                                          -- why it was closed: completed, not_planned, duplicate
    author_association    TEXT,                                          -- the author's relation to the repository
    reactions             INTEGER NOT NULL DEFAULT 0,
    node_id               TEXT,                                          -- global id, where the forge has one
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    closed_at             INTEGER,
    last_seen_at          INTEGER NOT NULL,
    deleted_at            INTEGER,                                       -- set on a tombstone: gone on the server
    web_url               TEXT,
    content_hash          BLOB NOT NULL,
    raw_payload_id        INTEGER NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
) STRICT;
CREATE INDEX idx_issues_project_updated ON issues (project_id, updated_at);
CREATE INDEX idx_issues_project_created ON issues (project_id, created_at);
CREATE INDEX idx_issues_project_iid ON issues (project_id, iid);
CREATE INDEX idx_issues_author ON issues (author_username);
CREATE INDEX idx_issues_status_name ON issues (project_id, status_name);
CREATE INDEX idx_issues_live ON issues (updated_at, id, project_id, state) WHERE deleted_at IS NULL;
CREATE INDEX idx_issues_live_created ON issues (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX idx_issues_live_project ON issues (project_id, state, updated_at) WHERE deleted_at IS NULL;
CREATE INDEX idx_issues_deleted ON issues (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX idx_issues_payload ON issues (raw_payload_id);

-- Labels of issues.
CREATE TABLE issue_labels (
    issue_id INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    label_id INTEGER NOT NULL REFERENCES labels (id) ON DELETE CASCADE,
    PRIMARY KEY (issue_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_issue_labels_label ON issue_labels (label_id);

-- Assignees of issues.
CREATE TABLE issue_assignees (
    issue_id INTEGER NOT NULL REFERENCES issues (id) ON DELETE CASCADE,
    username TEXT NOT NULL,
    PRIMARY KEY (issue_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_issue_assignees_username ON issue_assignees (username);

-- Merge requests and pull requests of every forge.
CREATE TABLE merge_requests (
    id                    INTEGER PRIMARY KEY,
    remote_id             INTEGER NOT NULL,
    project_id            INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    iid                   INTEGER NOT NULL,                              -- number inside the project
    title                 TEXT NOT NULL,
    description           TEXT,
    state                 TEXT NOT NULL,                                 -- opened, closed, locked or merged
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
    user_notes_count      INTEGER NOT NULL DEFAULT 0,                    -- comments, as the forge counts them
    author_association    TEXT,                                          -- the author's relation to the repository
    reactions             INTEGER NOT NULL DEFAULT 0,
    merge_commit_sha      TEXT,
    node_id               TEXT,                                          -- global id, where the forge has one
    issue_remote_id       INTEGER,                                       -- id of its issue side, where the forge has one
    issue_updated_at      INTEGER,                                       -- version of the issue side that was read
    issue_content_hash    BLOB,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    merged_at             INTEGER,
    closed_at             INTEGER,
    last_seen_at          INTEGER NOT NULL,
    deleted_at            INTEGER,                                       -- set on a tombstone: gone on the server
    web_url               TEXT,
    content_hash          BLOB NOT NULL,
    raw_payload_id        INTEGER NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
) STRICT;
CREATE INDEX idx_mrs_project_updated ON merge_requests (project_id, updated_at);
CREATE INDEX idx_mrs_project_created ON merge_requests (project_id, created_at);
CREATE INDEX idx_mrs_project_iid ON merge_requests (project_id, iid);
CREATE INDEX idx_mrs_author ON merge_requests (author_username);
CREATE INDEX idx_mrs_target_branch ON merge_requests (project_id, target_branch);
CREATE INDEX idx_mrs_source_branch ON merge_requests (project_id, source_branch);
CREATE INDEX idx_mrs_draft ON merge_requests (project_id, draft);
CREATE INDEX idx_mrs_live ON merge_requests (updated_at, id, project_id, state) WHERE deleted_at IS NULL;
CREATE INDEX idx_mrs_live_created ON merge_requests (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX idx_mrs_live_project ON merge_requests (project_id, state, updated_at) WHERE deleted_at IS NULL;
CREATE INDEX idx_mrs_deleted ON merge_requests (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX idx_mrs_head ON merge_requests (head_sha) WHERE head_sha IS NOT NULL;
CREATE INDEX idx_mrs_merge_commit ON merge_requests (merge_commit_sha) WHERE merge_commit_sha IS NOT NULL;
CREATE INDEX idx_mrs_payload ON merge_requests (raw_payload_id);
CREATE INDEX idx_mrs_issue_side ON merge_requests (project_id, issue_remote_id) WHERE issue_remote_id IS NOT NULL;

-- Labels of merge requests.
CREATE TABLE mr_labels (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    label_id         INTEGER NOT NULL REFERENCES labels (id) ON DELETE CASCADE,
    PRIMARY KEY (merge_request_id, label_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_labels_label ON mr_labels (label_id);

-- Assignees of merge requests.
CREATE TABLE mr_assignees (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    username         TEXT NOT NULL,
    PRIMARY KEY (merge_request_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_assignees_username ON mr_assignees (username);

-- Requested reviewers of merge requests.
CREATE TABLE mr_reviewers (
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    username         TEXT NOT NULL,
    PRIMARY KEY (merge_request_id, username)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_mr_reviewers_username ON mr_reviewers (username);

-- How far each kind of children of each issue and merge request was read. A tombstone has no row.
CREATE TABLE child_sync (
    project_id        INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    parent_kind       TEXT NOT NULL CHECK (parent_kind IN ('issues', 'merge_requests')),
    kind              TEXT NOT NULL,                                     -- discussions, comments, reviews, threads, resource_events, closes_issues, diffs, reviewers, positions, status
    parent_id         INTEGER NOT NULL,                                  -- row of issues or merge_requests
    parent_updated_at INTEGER NOT NULL,                                  -- the parent's updated_at: the version to read for
    synced_for        INTEGER,                                           -- version they were read for after it had settled
    fetched_for       INTEGER,                                           -- version they were read for, perhaps too early
    attempts          INTEGER NOT NULL DEFAULT 0,                        -- failures in a row
    last_attempt_at   INTEGER,
    last_error        TEXT,
    PRIMARY KEY (project_id, parent_kind, kind, parent_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_child_sync_due ON child_sync (project_id, parent_kind, kind, parent_updated_at, parent_id)
    WHERE parent_updated_at > COALESCE(synced_for, -1);
CREATE INDEX idx_child_sync_verified ON child_sync (project_id, parent_kind, kind, last_attempt_at)
    WHERE last_attempt_at IS NOT NULL;

-- Kinds of children that a server refuses for a whole project, and when they are tried again.
CREATE TABLE refused_children (
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    parent_kind      TEXT NOT NULL CHECK (parent_kind IN ('issues', 'merge_requests')),
    kind             TEXT NOT NULL,
    parents          TEXT NOT NULL,                                      -- parents that were refused although they answer (JSON list of row ids)
    attempts         INTEGER NOT NULL DEFAULT 0,                         -- tries since it counts as unavailable; 0: too few parents to tell
    error            TEXT NOT NULL,
    first_refused_at INTEGER NOT NULL,
    next_attempt_at  INTEGER,
    PRIMARY KEY (project_id, parent_kind, kind),
    CHECK ((attempts > 0) = (next_attempt_at IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- Discussions: threads of notes below an issue or merge request.
CREATE TABLE discussions (
    id               INTEGER PRIMARY KEY,
    remote_id        TEXT NOT NULL,
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id         INTEGER REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id INTEGER REFERENCES merge_requests (id) ON DELETE CASCADE,
    noteable_type    TEXT NOT NULL CHECK (noteable_type IN ('Issue', 'MergeRequest')),
    individual_note  INTEGER NOT NULL CHECK (individual_note IN (0, 1)), -- a single note that cannot be answered as a thread
    first_note_at    INTEGER,
    last_note_at     INTEGER,
    last_seen_at     INTEGER NOT NULL,
    resolvable       INTEGER NOT NULL CHECK (resolvable IN (0, 1)),
    resolved         INTEGER CHECK (resolved IN (0, 1)),                 -- NULL: unknown
    resolved_by      TEXT,                                               -- where the forge says it of the thread
    is_outdated      INTEGER CHECK (is_outdated IN (0, 1)),              -- its lines have changed since; NULL: unknown
    node_id          TEXT,                                               -- global id of the thread, where the forge has one
    state_hash       BLOB,                                               -- version of the thread's state, where it is read apart from its notes
    content_hash     BLOB,                                               -- NULL where the forge sends notes only
    raw_payload_id   INTEGER REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
) STRICT;
CREATE INDEX idx_discussions_issue_id ON discussions (issue_id);
CREATE INDEX idx_discussions_mr_resolved ON discussions (merge_request_id, resolved, resolvable);
CREATE INDEX idx_discussions_payload ON discussions (raw_payload_id);

-- Notes: single comments of a discussion, with their place in the diff where they have one.
CREATE TABLE notes (
    id                        INTEGER PRIMARY KEY,
    remote_id                 INTEGER NOT NULL,
    kind                      TEXT NOT NULL DEFAULT 'note'               -- ids are unique per kind
        CHECK (kind IN ('note', 'issue_comment', 'review_comment', 'review_summary')),
    project_id                INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    discussion_id             INTEGER NOT NULL REFERENCES discussions (id) ON DELETE CASCADE,
    note_type                 TEXT,
    is_system                 INTEGER NOT NULL CHECK (is_system IN (0, 1)), -- written by the forge itself
    is_internal               INTEGER NOT NULL DEFAULT 0 CHECK (is_internal IN (0, 1)), -- visible to project members only
    author_username           TEXT,
    author_association        TEXT,                                      -- the author's relation to the repository
    is_bot                    INTEGER NOT NULL DEFAULT 0 CHECK (is_bot IN (0, 1)),
    body                      TEXT NOT NULL,
    url                       TEXT,
    created_at                INTEGER NOT NULL,
    updated_at                INTEGER NOT NULL,
    last_seen_at              INTEGER NOT NULL,
    position                  INTEGER NOT NULL,                          -- order inside the discussion
    resolvable                INTEGER NOT NULL CHECK (resolvable IN (0, 1)),
    resolved                  INTEGER CHECK (resolved IN (0, 1)),        -- NULL: unknown
    resolved_by               TEXT,
    resolved_at               INTEGER,
    position_old_path         TEXT,                                      -- place in the diff
    position_new_path         TEXT,
    position_old_line         INTEGER,
    position_new_line         INTEGER,
    position_type             TEXT,
    position_line_range_start INTEGER,
    position_line_range_end   INTEGER,
    position_range_unknown    INTEGER NOT NULL DEFAULT 0 CHECK (position_range_unknown IN (0, 1)), -- 1: the lines were not shown yet
    position_base_sha         TEXT,
    position_start_sha        TEXT,
    position_head_sha         TEXT,
    position_side             TEXT,                                      -- LEFT or RIGHT
    subject_type              TEXT,                                      -- line or file
    diff_hunk                 TEXT,                                      -- the lines of the diff it was written below
    in_reply_to               INTEGER,                                   -- first comment of its thread
    review_id                 INTEGER,                                   -- review it belongs to
    review_state              TEXT,                                      -- APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED
    version_hash              BLOB,                                      -- version of a comment that is read by itself
    judged_at                 INTEGER,                                   -- update time of the version judged for feedback; NULL: none
    judged_hash               BLOB,                                      -- digest of the body of that version
    ignored                   TEXT                                       -- why its author keeps it from becoming an event
        CHECK (ignored IN ('not_allowed', 'bot', 'deleted_account')),
    raw_payload_id            INTEGER REFERENCES raw_payloads (id),
    UNIQUE (project_id, kind, remote_id)
) STRICT;
CREATE INDEX idx_notes_discussion ON notes (discussion_id, position);
CREATE INDEX idx_notes_author ON notes (author_username);
CREATE INDEX idx_notes_new_path_line ON notes (position_new_path, position_new_line)
    WHERE position_new_path IS NOT NULL;
CREATE INDEX idx_notes_old_path_line ON notes (position_old_path, position_old_line)
    WHERE position_old_path IS NOT NULL;
CREATE INDEX idx_notes_payload ON notes (raw_payload_id);
CREATE INDEX idx_notes_ignored ON notes (project_id, discussion_id, author_username, author_association, ignored)
    WHERE ignored IS NOT NULL;

-- State changes of issues and merge requests.
CREATE TABLE resource_state_events (
    id                      INTEGER PRIMARY KEY,
    remote_id               INTEGER NOT NULL,
    project_id              INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id                INTEGER REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id        INTEGER REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username           TEXT,
    state                   TEXT NOT NULL,
    source_commit           TEXT,
    source_merge_request_id INTEGER,
    created_at              INTEGER NOT NULL,
    content_hash            BLOB NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
) STRICT;
CREATE INDEX idx_resource_state_events_issue ON resource_state_events (issue_id, created_at);
CREATE INDEX idx_resource_state_events_mr ON resource_state_events (merge_request_id, created_at);

-- Labels added to or removed from issues and merge requests.
CREATE TABLE resource_label_events (
    id               INTEGER PRIMARY KEY,
    remote_id        INTEGER NOT NULL,
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id         INTEGER REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id INTEGER REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username    TEXT,
    action           TEXT NOT NULL,                                      -- add or remove
    label_name       TEXT,                                               -- NULL when the label was deleted since
    created_at       INTEGER NOT NULL,
    content_hash     BLOB NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
) STRICT;
CREATE INDEX idx_resource_label_events_issue ON resource_label_events (issue_id, created_at);
CREATE INDEX idx_resource_label_events_mr ON resource_label_events (merge_request_id, created_at);

-- Milestones set on or removed from issues and merge requests.
CREATE TABLE resource_milestone_events (
    id                  INTEGER PRIMARY KEY,
    remote_id           INTEGER NOT NULL,
    project_id          INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id            INTEGER REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id    INTEGER REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username       TEXT,
    action              TEXT NOT NULL,                                   -- add or remove
    milestone_title     TEXT,                                            -- NULL when the milestone was deleted since
    milestone_remote_id INTEGER,
    created_at          INTEGER NOT NULL,
    content_hash        BLOB NOT NULL,
    UNIQUE (project_id, remote_id),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
) STRICT;
CREATE INDEX idx_resource_milestone_events_issue ON resource_milestone_events (issue_id, created_at);
CREATE INDEX idx_resource_milestone_events_mr ON resource_milestone_events (merge_request_id, created_at);

-- Issues that a merge request closes when it is merged, also those of other projects and trackers.
CREATE TABLE mr_closes_issues (
    id                      INTEGER PRIMARY KEY,
    merge_request_id        INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    issue_key               TEXT NOT NULL,
    issue_remote_id         INTEGER,
    issue_iid               INTEGER,
    issue_project_remote_id INTEGER,
    reference               TEXT,
    title                   TEXT,
    web_url                 TEXT,
    content_hash            BLOB NOT NULL,
    UNIQUE (merge_request_id, issue_key)
) STRICT;
CREATE INDEX idx_mr_closes_issues_issue ON mr_closes_issues (issue_remote_id);

-- Files that a merge request changes, for each head it had when they were read.
CREATE TABLE mr_file_changes (
    id               INTEGER PRIMARY KEY,
    merge_request_id INTEGER NOT NULL REFERENCES merge_requests (id) ON DELETE CASCADE,
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    head_sha         TEXT NOT NULL,
    old_path         TEXT NOT NULL,
    new_path         TEXT NOT NULL,
    new_file         INTEGER NOT NULL CHECK (new_file IN (0, 1)),
    renamed_file     INTEGER NOT NULL CHECK (renamed_file IN (0, 1)),
    deleted_file     INTEGER NOT NULL CHECK (deleted_file IN (0, 1)),
    content_hash     BLOB NOT NULL,
    UNIQUE (merge_request_id, head_sha, old_path, new_path)
) STRICT;
CREATE INDEX idx_mr_file_changes_new_path ON mr_file_changes (project_id, new_path);
CREATE INDEX idx_mr_file_changes_old_path ON mr_file_changes (project_id, old_path);

-- Followed Bluesky accounts. The DID is the identity; the handle may change.
CREATE TABLE accounts (
    id                  INTEGER PRIMARY KEY,
    did                 TEXT NOT NULL UNIQUE,
    handle              TEXT NOT NULL,
    display_name        TEXT,
    state               TEXT NOT NULL CHECK (state IN ('new', 'established', 'unavailable', 'paused')),
    reason              TEXT,                                            -- why it is unavailable
    mode                TEXT CHECK (mode IN ('feed', 'records')),        -- how it is read; NULL: as configured
    pds_url             TEXT,                                            -- server that holds its repository
    pds_resolved_at     INTEGER,
    added_by            TEXT NOT NULL,
    next_poll_at        INTEGER NOT NULL,
    interval_seconds    INTEGER NOT NULL CHECK (interval_seconds > 0),
    last_post_at        INTEGER,
    last_polled_at      INTEGER,
    posts_fetched_count INTEGER NOT NULL DEFAULT 0,
    failures            INTEGER NOT NULL DEFAULT 0,                      -- failures in a row; the pause grows with them
    last_error          TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_accounts_handle ON accounts (handle);
CREATE INDEX idx_accounts_due ON accounts (next_poll_at, id) WHERE state <> 'paused';

-- Posts, replies, quotes and reposts.
CREATE TABLE posts (
    id             INTEGER PRIMARY KEY,
    uri            TEXT NOT NULL UNIQUE,
    cid            TEXT NOT NULL,                                        -- changes with every edit
    account_id     INTEGER REFERENCES accounts (id) ON DELETE SET NULL,
    author_did     TEXT NOT NULL,
    author_handle  TEXT,
    kind           TEXT NOT NULL CHECK (kind IN ('post', 'reply', 'quote', 'repost')),
    text           TEXT NOT NULL,
    langs          TEXT NOT NULL,
    alt_text       TEXT NOT NULL DEFAULT '',                             -- descriptions of images and videos, one per line
    labels         TEXT NOT NULL DEFAULT '',                             -- labels the author gave it, one per line
    tags           TEXT NOT NULL DEFAULT '',                             -- one per line
    reply_parent   TEXT,
    reply_root     TEXT,
    quoted_uri     TEXT,
    subject_uri    TEXT,                                                 -- what a repost repeats
    created_at     INTEGER NOT NULL,                                     -- as dated by the author
    indexed_at     INTEGER,
    sort_at        INTEGER NOT NULL,                                     -- place in the author's feed
    url            TEXT,
    embed_kind     TEXT,
    raw_payload_id INTEGER NOT NULL REFERENCES raw_payloads (id),
    content_hash   BLOB NOT NULL,
    first_seen_at  INTEGER NOT NULL,
    last_seen_at   INTEGER NOT NULL,
    edited_at      INTEGER,
    deleted_at     INTEGER
) STRICT;
CREATE INDEX idx_posts_account ON posts (account_id);
CREATE INDEX idx_posts_author ON posts (author_did, sort_at);
CREATE INDEX idx_posts_sort ON posts (sort_at);
CREATE INDEX idx_posts_deleted ON posts (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX idx_posts_payload ON posts (raw_payload_id);
CREATE INDEX idx_posts_parent ON posts (reply_parent) WHERE reply_parent IS NOT NULL;
CREATE INDEX idx_posts_subject ON posts (subject_uri) WHERE subject_uri IS NOT NULL;

-- Shared URLs in normalised form, with what a preview card said of them.
CREATE TABLE links (
    id              INTEGER PRIMARY KEY,
    url             TEXT NOT NULL UNIQUE,
    title           TEXT,
    description     TEXT,
    thumb           TEXT,
    first_shared_at INTEGER NOT NULL,
    last_shared_at  INTEGER NOT NULL
) STRICT;

-- Which post shared which URL. Deleted posts share nothing.
CREATE TABLE post_links (
    post_id   INTEGER NOT NULL REFERENCES posts (id) ON DELETE CASCADE,
    link_id   INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    raw       TEXT NOT NULL,                                             -- the URL as it was written
    shared_at INTEGER NOT NULL,
    sharer    TEXT NOT NULL,                                             -- DID of the author
    PRIMARY KEY (post_id, link_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_post_links_shared ON post_links (shared_at, link_id, sharer);
CREATE INDEX idx_post_links_link ON post_links (link_id, shared_at, sharer);

-- Topics of a project: the Discussions of GitHub.
CREATE TABLE topics (
    id                 INTEGER PRIMARY KEY,
    remote_id          INTEGER NOT NULL,
    project_id         INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    iid                INTEGER NOT NULL,                                 -- number inside the project, shared with issues and pull requests
    node_id            TEXT NOT NULL,                                    -- global id
    title              TEXT NOT NULL,
    body               TEXT,
    author_username    TEXT,
    author_association TEXT,                                             -- the author's relation to the repository
    category           TEXT,
    is_answered        INTEGER CHECK (is_answered IN (0, 1)),            -- NULL in a category without answers
    answer_remote_id   INTEGER,                                          -- comment that was chosen as the answer
    answer_chosen_at   INTEGER,
    upvotes            INTEGER NOT NULL DEFAULT 0,
    state              TEXT NOT NULL,                                    -- opened or closed
    state_reason       TEXT,                                             -- why it was closed: resolved, outdated, duplicate
    locked             INTEGER NOT NULL DEFAULT 0 CHECK (locked IN (0, 1)),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    closed_at          INTEGER,
    last_seen_at       INTEGER NOT NULL,
    deleted_at         INTEGER,                                          -- set on a tombstone: gone on the server
    web_url            TEXT,
    content_hash       BLOB NOT NULL,                                    -- version of the topic with all its comments
    raw_payload_id     INTEGER NOT NULL REFERENCES raw_payloads (id),
    UNIQUE (project_id, remote_id)
) STRICT;
CREATE INDEX idx_topics_project_created ON topics (project_id, created_at);
CREATE INDEX idx_topics_project_iid ON topics (project_id, iid);
CREATE INDEX idx_topics_author ON topics (author_username);
CREATE INDEX idx_topics_live ON topics (updated_at, id, project_id, state) WHERE deleted_at IS NULL;
CREATE INDEX idx_topics_deleted ON topics (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX idx_topics_payload ON topics (raw_payload_id);

-- Comments of topics, and replies to them.
CREATE TABLE topic_comments (
    id                 INTEGER PRIMARY KEY,
    topic_id           INTEGER NOT NULL REFERENCES topics (id) ON DELETE CASCADE,
    remote_id          INTEGER NOT NULL,
    node_id            TEXT NOT NULL,                                    -- global id
    in_reply_to        INTEGER,                                          -- remote id of the comment that a reply belongs to
    position           INTEGER NOT NULL,                                 -- place in the topic; replies follow their comment
    author_username    TEXT,
    author_association TEXT,
    body               TEXT NOT NULL,
    is_answer          INTEGER NOT NULL DEFAULT 0 CHECK (is_answer IN (0, 1)),
    upvotes            INTEGER NOT NULL DEFAULT 0,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,                                          -- set on a deleted comment that stays because it has replies
    url                TEXT,
    UNIQUE (topic_id, remote_id)
) STRICT;

-- Which items changed in the copy: one row per item with its newest change. `seq` grows in the order of commits.
CREATE TABLE changes (
    thread_type TEXT NOT NULL CHECK (thread_type IN ('issue', 'merge_request', 'topic', 'post')),
    thread_id   INTEGER NOT NULL,
    project_id  INTEGER REFERENCES projects (id) ON DELETE CASCADE,      -- NULL for posts
    first_seq   INTEGER NOT NULL,                                        -- change that brought it into the copy
    seq         INTEGER NOT NULL,                                        -- its newest change
    changed_at  INTEGER NOT NULL,                                        -- when that was stored
    PRIMARY KEY (thread_type, thread_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_changes_seq ON changes (seq, thread_type, thread_id);
CREATE INDEX idx_changes_project ON changes (project_id, seq);

-- The last number given to a change. Its row is locked at the end of a transaction, so numbers grow in commit order.
CREATE TABLE change_counter (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    seq        INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- Items whose document must be generated again; written in the transaction that changed them.
CREATE TABLE dirty_sources (
    source_type TEXT NOT NULL CHECK (source_type IN ('issue', 'merge_request', 'discussion', 'topic', 'post')),
    source_id   INTEGER NOT NULL,
    queued_at   INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT,
    PRIMARY KEY (source_type, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_dirty_sources_queued ON dirty_sources (queued_at, source_type, source_id);

-- Searchable text of each issue, merge request, discussion, topic and post.
CREATE TABLE documents (
    id              INTEGER PRIMARY KEY,
    source_type     TEXT NOT NULL CHECK (source_type IN ('issue', 'merge_request', 'discussion', 'topic', 'post')),
    source_id       INTEGER NOT NULL,
    project_id      INTEGER REFERENCES projects (id) ON DELETE CASCADE,  -- NULL for posts
    thread_type     TEXT NOT NULL CHECK (thread_type IN ('issue', 'merge_request', 'topic', 'post')),
    thread_id       INTEGER NOT NULL,                                    -- issue, merge request, topic or post it belongs to
    title           TEXT NOT NULL,
    state           TEXT NOT NULL,
    author_username TEXT,
    participants    TEXT NOT NULL,
    labels          TEXT NOT NULL,
    paths           TEXT NOT NULL,
    identifiers     TEXT NOT NULL,                                       -- paths and names that are searched by any part
    content         TEXT NOT NULL,
    bigrams         TEXT NOT NULL DEFAULT '',                            -- pairs of Chinese, Japanese and Korean characters
    url             TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    generated_at    INTEGER NOT NULL,
    content_hash    BLOB NOT NULL,
    UNIQUE (source_type, source_id),
    CHECK ((source_type = 'post') = (project_id IS NULL))
) STRICT;
CREATE INDEX idx_documents_thread ON documents (thread_type, thread_id);
CREATE INDEX idx_documents_project ON documents (project_id, updated_at);
CREATE INDEX idx_documents_updated ON documents (updated_at);
CREATE INDEX idx_documents_hash ON documents (id, content_hash);

-- Words of the documents, in lower case without accents: to correct typing errors in queries.
CREATE TABLE document_words (
    id   INTEGER PRIMARY KEY,
    word TEXT NOT NULL UNIQUE
) STRICT;

-- Models that made vectors. Vectors of two models are never compared.
CREATE TABLE embedding_models (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    dimension  INTEGER NOT NULL CHECK (dimension > 0),
    chunking   TEXT NOT NULL,                                            -- how documents were cut into pieces
    slots      INTEGER NOT NULL DEFAULT 0,                               -- vector places ever given out
    generation INTEGER NOT NULL DEFAULT 0,                               -- how often vectors were written
    created_at INTEGER NOT NULL,
    UNIQUE (name, version, dimension)
) STRICT;

-- One row for each embedded piece of a document.
CREATE TABLE embeddings (
    model_id     INTEGER NOT NULL REFERENCES embedding_models (id),
    document_id  INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    content_hash BLOB NOT NULL,                                          -- of the document when it was cut
    chunk_hash   BLOB NOT NULL,                                          -- of the piece
    block        INTEGER,                                                -- where its vector stands
    slot         INTEGER,
    PRIMARY KEY (model_id, document_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_embeddings_document ON embeddings (document_id);

-- Vectors, 64 to a row: one byte for each number, with a scale for each vector. The signs come first, because a
-- search compares those of all vectors and reads the numbers of a few.
CREATE TABLE embedding_blocks (
    model_id   INTEGER NOT NULL REFERENCES embedding_models (id),
    block      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    documents  BLOB NOT NULL,
    positions  BLOB NOT NULL,
    scales     BLOB NOT NULL,
    signs      BLOB NOT NULL,                                            -- one bit for each number: is it positive
    vectors    BLOB NOT NULL,
    UNIQUE (model_id, block)
) STRICT;

-- Vector places that are free again.
CREATE TABLE embedding_holes (
    model_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    slot     INTEGER NOT NULL,
    PRIMARY KEY (model_id, block, slot)
) STRICT, WITHOUT ROWID;

-- Pull requests that are followed for feedback.
CREATE TABLE tracked_prs (
    id                 INTEGER PRIMARY KEY,
    project_id         INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name     TEXT NOT NULL,
    pr_number          INTEGER NOT NULL,
    issue_number       INTEGER,                                          -- source issue
    branch             TEXT,
    title              TEXT,
    author             TEXT,
    url                TEXT,
    status             TEXT NOT NULL CHECK (status IN ('awaiting_feedback', 'blocked', 'merged', 'closed')),
    paused             INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    last_seen_head_sha TEXT,
    blocked_reason     TEXT,
    blocked_at         INTEGER,
    tracked_by         TEXT NOT NULL CHECK (tracked_by IN ('operator', 'rule')),
    pull_updated_at    INTEGER,                                          -- last change of the pull request that was seen
    judge_from         INTEGER DEFAULT 0,                                -- stored comments since then are not judged yet; NULL: all are
    scan_due           INTEGER NOT NULL DEFAULT 0 CHECK (scan_due IN (0, 1)), -- an operator asked to read it from the beginning
    compared_at        INTEGER,                                          -- when all of it was last compared with the server
    entered_at         INTEGER NOT NULL,                                 -- when it entered its status
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (project_id, pr_number),
    CHECK ((status = 'blocked') = (blocked_at IS NOT NULL)),
    CHECK ((status = 'blocked') = (blocked_reason IS NOT NULL))
) STRICT;
CREATE INDEX idx_tracked_prs_status ON tracked_prs (status, project_id);

-- Status changes of followed pull requests.
CREATE TABLE tracked_pr_history (
    id            INTEGER PRIMARY KEY,
    tracked_pr_id INTEGER NOT NULL REFERENCES tracked_prs (id) ON DELETE CASCADE,
    from_status   TEXT,
    to_status     TEXT NOT NULL,
    reason        TEXT NOT NULL,
    detail        TEXT,
    at            INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_tracked_pr_history_tracked ON tracked_pr_history (tracked_pr_id, id);

-- Comments to act on, with their body. One event of a thread is in flight at a time.
CREATE TABLE feedback_events (
    id              INTEGER PRIMARY KEY,
    project_id      INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name  TEXT NOT NULL,
    event_key       TEXT NOT NULL,                                       -- names one version of a comment
    thread_number   INTEGER NOT NULL,                                    -- pull request, or issue where there is none
    pr_number       INTEGER,
    issue_number    INTEGER,
    kind            TEXT NOT NULL
        CHECK (kind IN ('note', 'issue_comment', 'review_comment', 'review_summary', 'issue_followups')),
    comment_id      INTEGER NOT NULL,
    author          TEXT,
    body            TEXT NOT NULL,
    path            TEXT,
    line            INTEGER,
    side            TEXT,
    commit_sha      TEXT,
    in_reply_to     INTEGER,
    review_id       INTEGER,
    review_state    TEXT,
    url             TEXT,
    association     TEXT,                                                -- the author's relation to the repository
    start_line      INTEGER,
    subject_type    TEXT,                                                -- line or file
    diff_hunk       TEXT,                                                -- the lines of the diff it was written below
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ingested_at     INTEGER NOT NULL,
    processed_at    INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT,
    next_attempt_at INTEGER,
    lease_id        TEXT,
    leased_by       TEXT,
    leased_until    INTEGER,
    UNIQUE (project_id, event_key),
    CHECK (thread_number = COALESCE(pr_number, issue_number)),
    CHECK ((lease_id IS NULL) = (leased_by IS NULL)),
    CHECK (leased_until IS NULL OR lease_id IS NOT NULL)
) STRICT;
CREATE INDEX idx_feedback_events_pending ON feedback_events (updated_at, id) WHERE processed_at IS NULL;
CREATE INDEX idx_feedback_events_thread ON feedback_events (project_id, thread_number, updated_at, id)
    WHERE processed_at IS NULL;
CREATE INDEX idx_feedback_events_in_flight ON feedback_events (project_id, thread_number, leased_until)
    WHERE processed_at IS NULL AND leased_until IS NOT NULL;

-- Tokens that identify what we post, and whether it arrived.
CREATE TABLE action_tokens (
    repo_full_name      TEXT NOT NULL,
    token               TEXT NOT NULL,
    project_id          INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    scope_kind          TEXT NOT NULL CHECK (scope_kind IN ('pr', 'issue', 'topic')),
    scope_number        INTEGER NOT NULL,
    source              TEXT NOT NULL,
    status              TEXT NOT NULL CHECK (status IN ('planned', 'posted', 'observed', 'failed')),
    attempt_count       INTEGER NOT NULL DEFAULT 0,
    observed_comment_id INTEGER,
    observed_updated_at INTEGER,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    PRIMARY KEY (repo_full_name, token),
    CHECK (status <> 'observed' OR observed_comment_id IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_action_tokens_scope ON action_tokens (repo_full_name, scope_kind, scope_number, status);
CREATE INDEX idx_action_tokens_project ON action_tokens (project_id, token);
CREATE INDEX idx_action_tokens_open ON action_tokens (created_at) WHERE status IN ('planned', 'posted');

-- Answers to post, stored before they are posted.
CREATE TABLE outbox (
    id              INTEGER PRIMARY KEY,
    project_id      INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name  TEXT NOT NULL,
    token           TEXT NOT NULL,
    scope_kind      TEXT NOT NULL CHECK (scope_kind IN ('pr', 'issue', 'topic')),
    scope_number    INTEGER NOT NULL,
    reply_to        INTEGER,
    body            TEXT NOT NULL,
    source          TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('planned', 'posted', 'observed', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    attempted_at    INTEGER,                                             -- without an answer, a write that may have arrived
    claim_id        TEXT,
    claimed_until   INTEGER,
    next_attempt_at INTEGER,
    comment_id      INTEGER,
    last_error      TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    after_id        INTEGER,                                             -- sent only after this row was observed; NULL: at once
    UNIQUE (repo_full_name, token),
    CHECK ((claim_id IS NULL) = (claimed_until IS NULL)),
    CHECK ((attempts = 0) = (attempted_at IS NULL))
) STRICT;
CREATE INDEX idx_outbox_open ON outbox (id) WHERE status IN ('planned', 'posted');
CREATE INDEX idx_outbox_attempted ON outbox (project_id, attempted_at);

-- Commands that operators gave in comments, stored before they are applied.
CREATE TABLE operator_commands (
    command_key    TEXT NOT NULL,
    project_id     INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name TEXT NOT NULL,
    issue_number   INTEGER NOT NULL,
    pr_number      INTEGER,
    comment_id     INTEGER NOT NULL,
    author         TEXT,
    command        TEXT NOT NULL,
    args_json      TEXT NOT NULL,
    body           TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('pending', 'applied', 'rejected', 'failed', 'expired')),
    result         TEXT,
    commented_at   INTEGER NOT NULL,
    ingested_at    INTEGER NOT NULL,
    applied_at     INTEGER,
    PRIMARY KEY (project_id, command_key),
    CHECK (status <> 'pending' OR applied_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_operator_commands_pending ON operator_commands (commented_at, comment_id) WHERE status = 'pending';

-- Followed source issues, and how far their comments were routed.
CREATE TABLE issue_comment_cursors (
    repo_full_name                     TEXT NOT NULL,
    issue_number                       INTEGER NOT NULL,
    project_id                         INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    pr_number                          INTEGER,                          -- pull request that came of the issue
    pre_pr_last_consumed_comment_id    INTEGER NOT NULL DEFAULT 0,
    post_pr_last_redirected_comment_id INTEGER NOT NULL DEFAULT 0,
    judge_from                         INTEGER DEFAULT 0,                -- stored comments since then are not judged yet; NULL: all are
    followed_at                        INTEGER NOT NULL,                 -- when it was first followed
    entered_at                         INTEGER NOT NULL,                 -- when it was first followed, or got its pull request
    updated_at                         INTEGER NOT NULL,
    PRIMARY KEY (project_id, issue_number)
) STRICT, WITHOUT ROWID;

-- Comments on a source issue before its pull request; those without an event wait to be batched.
CREATE TABLE issue_followups (
    project_id   INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_number INTEGER NOT NULL,
    comment_id   INTEGER NOT NULL,
    author       TEXT,
    body         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    event_id     INTEGER REFERENCES feedback_events (id) ON DELETE CASCADE,
    PRIMARY KEY (project_id, issue_number, comment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_issue_followups_event ON issue_followups (event_id);

-- Secrets of this database, never shown. 'action_tokens' signs what we post.
CREATE TABLE local_secrets (
    name       TEXT PRIMARY KEY,
    secret     BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Our login on each host, as the host reported it.
CREATE TABLE own_logins (
    source     TEXT PRIMARY KEY,
    login      TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Searches that were saved under a name.
CREATE TABLE saved_searches (
    name       TEXT PRIMARY KEY,
    question   TEXT NOT NULL,                                            -- the query with its filters (JSON)
    seen       TEXT NOT NULL,                                            -- references of its results of the last time (JSON)
    created_at INTEGER NOT NULL,                                         -- first saved
    seen_at    INTEGER NOT NULL                                          -- its results were last shown
) STRICT, WITHOUT ROWID;

-- Metric counters that outlive the process.
CREATE TABLE metric_counters (
    name   TEXT NOT NULL,
    labels TEXT NOT NULL,                                                -- canonical JSON
    value  INTEGER NOT NULL,
    PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- How each repository was polled last, and what a poll by its feeds is expected to cost.
CREATE TABLE poll_costs (
    project_id    INTEGER PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    mode          TEXT NOT NULL CHECK (mode IN ('repo', 'thread')),
    feed_requests REAL NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;

-- Jobs of the service and how each of them stands.
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
    staleness_bound_seconds REAL,                                        -- how old the last success may be; NULL: no bound
    requests                INTEGER NOT NULL DEFAULT 0,                  -- over the whole life of the job
    updated_at              INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What each source said last of our rate limit.
CREATE TABLE source_budgets (
    source     TEXT PRIMARY KEY,
    remaining  INTEGER NOT NULL,
    allowed    INTEGER,                                                  -- of how many; NULL where the source does not say
    reset_at   INTEGER,                                                  -- when it fills up again, by our own clock
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Until when a source asked us to send nothing, by our own clock. Every process keeps to it.
CREATE TABLE source_pauses (
    source     TEXT PRIMARY KEY,
    until_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is left of the rate limit of a host and token, for all workers together.
CREATE TABLE rate_budgets (
    key         TEXT PRIMARY KEY,                                        -- name of the host, and a digest of the token
    remaining   INTEGER,                                                 -- neither sent nor granted; NULL: no limit known
    allowed     INTEGER,
    reset_at    INTEGER,
    outstanding INTEGER NOT NULL,                                        -- granted and not known to be answered
    pause_until INTEGER NOT NULL,                                        -- the server asked to send nothing until then
    slot_at     INTEGER NOT NULL,                                        -- next request by sync.rate_limit_rps
    probe_until INTEGER NOT NULL,                                        -- one worker asks for the limit, others wait
    is_known    INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Webhook deliveries: what a forge announced, never what it sent. No row of the copy is written from a delivery.
CREATE TABLE hook_deliveries (
    id          INTEGER PRIMARY KEY,
    source      TEXT NOT NULL,                                           -- name of the host in the configuration
    delivery_id TEXT NOT NULL,                                           -- id by which the forge repeats a delivery
    project_id  INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    kind        TEXT CHECK (kind IN ('issues', 'merge_requests')),       -- kind of the announced item; NULL: something else of the project
    iid         INTEGER,                                                 -- number of the announced item
    silent      INTEGER NOT NULL DEFAULT 0 CHECK (silent IN (0, 1)),     -- the change may leave the item's update time as it is
    received_at INTEGER NOT NULL,
    read_at     INTEGER,                                                 -- the project was read after this delivery; NULL: waiting
    UNIQUE (source, delivery_id),
    CHECK ((kind IS NULL) = (iid IS NULL))
) STRICT;
CREATE INDEX idx_hook_deliveries_waiting ON hook_deliveries (source, id) WHERE read_at IS NULL;
CREATE INDEX idx_hook_deliveries_item ON hook_deliveries (project_id, kind, iid, received_at);
CREATE INDEX idx_hook_deliveries_received ON hook_deliveries (received_at);

-- Projects that have webhooks, since their first delivery.
CREATE TABLE hook_projects (
    project_id    INTEGER PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    first_at      INTEGER NOT NULL,                                      -- first delivery
    last_at       INTEGER NOT NULL,                                      -- latest delivery
    checked_until INTEGER NOT NULL,                                      -- changes up to this time were compared with the deliveries
    missed_at     INTEGER                                                -- when a change was last found that no delivery announced
) STRICT;

-- Cursors of forge lists under the names of the founding documents.
CREATE VIEW sync_cursors AS
SELECT project_id,
       substr(surface, FIND(surface, '.') + 1) AS resource_type,
       watermark_at                            AS updated_at_cursor,
       AS_NUMBER(watermark_id)                 AS tie_breaker_id
FROM cursors
WHERE project_id IS NOT NULL;

-- Cursors of GitHub comment lists under the names of the founding documents.
CREATE VIEW github_comment_poll_cursors AS
SELECT p.path                       AS repo_full_name,
       substr(c.surface, 8)         AS surface,
       CASE WHEN FIND(c.scope, '#') > 0 THEN CAST(substr(c.scope, FIND(c.scope, '#') + 1) AS INTEGER) ELSE 0 END
           AS scope_number,
       ISO_SECOND(c.watermark_at)   AS last_updated_at,
       AS_NUMBER(c.watermark_id)    AS last_comment_id,
       c.bootstrap_complete,
       ISO_TIME(c.updated_at)       AS updated_at
FROM cursors c JOIN projects p ON p.id = c.project_id
WHERE c.surface LIKE 'github.%';

-- Polling positions of accounts under the names of the founding documents.
CREATE VIEW poll_state AS
SELECT handle                   AS user_handle,
       ISO_TIME(high_water)     AS last_cursor,
       ISO_TIME(last_polled_at) AS last_polled_at,
       posts_fetched_count
FROM (
    SELECT a.handle, a.last_polled_at, a.posts_fetched_count,
           (SELECT MAX(c.watermark_at) FROM cursors c WHERE c.source = 'bluesky' AND c.scope = a.did
            AND c.surface IN ('bluesky.author_feed', 'bluesky.records')) AS high_water
    FROM accounts a
) AS positions;

-- Issues with readable times, for sqlite3, psql and datasette.
CREATE VIEW v_issues AS
SELECT p.path AS project, i.iid, i.title, i.state, i.author_username AS author, i.milestone_title AS milestone,
       i.user_notes_count AS comments, ISO_TIME(i.created_at) AS created, ISO_TIME(i.updated_at) AS updated,
       ISO_TIME(i.closed_at) AS closed, i.description, i.web_url
FROM issues i JOIN projects p ON p.id = i.project_id
WHERE i.deleted_at IS NULL;

-- Merge requests with readable times.
CREATE VIEW v_merge_requests AS
SELECT p.path AS project, m.iid, m.title, m.state, m.draft, m.author_username AS author, m.source_branch,
       m.target_branch, m.milestone_title AS milestone, m.user_notes_count AS comments,
       ISO_TIME(m.created_at) AS created, ISO_TIME(m.updated_at) AS updated, ISO_TIME(m.merged_at) AS merged,
       ISO_TIME(m.closed_at) AS closed, m.description, m.web_url
FROM merge_requests m JOIN projects p ON p.id = m.project_id
WHERE m.deleted_at IS NULL;

-- Discussions with the item they belong to and readable times.
CREATE VIEW v_threads AS
SELECT p.path AS project, d.noteable_type AS item, COALESCE(i.iid, m.iid) AS iid, COALESCE(i.title, m.title) AS title,
       d.resolvable, d.resolved, ISO_TIME(d.first_note_at) AS began, ISO_TIME(d.last_note_at) AS last_note, d.id
FROM discussions d JOIN projects p ON p.id = d.project_id
LEFT JOIN issues i ON i.id = d.issue_id LEFT JOIN merge_requests m ON m.id = d.merge_request_id;

-- Notes that people wrote, with the item they belong to and readable times.
CREATE VIEW v_notes AS
SELECT p.path AS project, d.noteable_type AS item, COALESCE(i.iid, m.iid) AS iid, n.author_username AS author,
       ISO_TIME(n.created_at) AS created, ISO_TIME(n.updated_at) AS updated, n.body,
       COALESCE(n.position_new_path, n.position_old_path) AS path,
       COALESCE(n.position_new_line, n.position_old_line) AS line, n.resolved, n.discussion_id
FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN projects p ON p.id = n.project_id
LEFT JOIN issues i ON i.id = d.issue_id LEFT JOIN merge_requests m ON m.id = d.merge_request_id
WHERE n.is_system = 0;

-- Topics with readable times.
CREATE VIEW v_topics AS
SELECT p.path AS project, t.iid, t.title, t.state, t.category, t.is_answered, t.author_username AS author, t.upvotes,
       (SELECT COUNT(*) FROM topic_comments c WHERE c.topic_id = t.id AND c.deleted_at IS NULL) AS comments,
       ISO_TIME(t.created_at) AS created, ISO_TIME(t.updated_at) AS updated, ISO_TIME(t.closed_at) AS closed, t.body,
       t.web_url
FROM topics t JOIN projects p ON p.id = t.project_id
WHERE t.deleted_at IS NULL;

-- Posts with readable times.
CREATE VIEW v_posts AS
SELECT COALESCE(a.handle, p.author_handle, p.author_did) AS author, p.kind, p.text, p.alt_text, p.tags,
       ISO_TIME(p.created_at) AS created, ISO_TIME(p.sort_at) AS listed, p.url, p.uri
FROM posts p LEFT JOIN accounts a ON a.did = p.author_did
WHERE p.deleted_at IS NULL;
