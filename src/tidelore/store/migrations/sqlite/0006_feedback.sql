-- The pull requests that are followed. `entered_at` is when a row entered its status, `pull_updated_at` the pull request's
-- own last change as we saw it, `reviews_read_for` the change for which its reviews were read.
CREATE TABLE tracked_prs (
    id                 INTEGER PRIMARY KEY,
    project_id         INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name     TEXT NOT NULL,
    pr_number          INTEGER NOT NULL,
    issue_number       INTEGER,
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
    pull_updated_at    INTEGER,
    reviews_read_for   INTEGER,
    entered_at         INTEGER NOT NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (project_id, pr_number),
    CHECK ((status = 'blocked') = (blocked_at IS NOT NULL)),
    CHECK ((status = 'blocked') = (blocked_reason IS NOT NULL))
) STRICT;
CREATE INDEX idx_tracked_prs_status ON tracked_prs (status, project_id);

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

-- The stored version of each comment of a followed thread: what makes another version new.
CREATE TABLE feedback_comments (
    project_id  INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK (kind IN ('issue_comment', 'review_comment', 'review_summary')),
    comment_id  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    digest      BLOB NOT NULL,
    body_digest BLOB NOT NULL,
    author      TEXT,
    PRIMARY KEY (project_id, kind, comment_id)
) STRICT, WITHOUT ROWID;

-- What somebody should act on, with its body. `thread_number` is the pull request, or the issue where there is none:
-- inside one thread the order is kept and one event at a time is in flight.
CREATE TABLE feedback_events (
    id              INTEGER PRIMARY KEY,
    project_id      INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name  TEXT NOT NULL,
    event_key       TEXT NOT NULL,
    thread_number   INTEGER NOT NULL,
    pr_number       INTEGER,
    issue_number    INTEGER,
    kind            TEXT NOT NULL
        CHECK (kind IN ('issue_comment', 'review_comment', 'review_summary', 'issue_followups')),
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

-- What we write to others carries a token; the token remembers whether it arrived.
CREATE TABLE action_tokens (
    repo_full_name      TEXT NOT NULL,
    token               TEXT NOT NULL,
    project_id          INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    scope_kind          TEXT NOT NULL CHECK (scope_kind IN ('pr', 'issue')),
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

-- What is to be posted, stored before it is. `attempted_at` without an answer is a write that may have landed.
CREATE TABLE outbox (
    id              INTEGER PRIMARY KEY,
    project_id      INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repo_full_name  TEXT NOT NULL,
    token           TEXT NOT NULL,
    scope_kind      TEXT NOT NULL CHECK (scope_kind IN ('pr', 'issue')),
    scope_number    INTEGER NOT NULL,
    reply_to        INTEGER,
    body            TEXT NOT NULL,
    source          TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('planned', 'posted', 'observed', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    attempted_at    INTEGER,
    claim_id        TEXT,
    claimed_until   INTEGER,
    next_attempt_at INTEGER,
    comment_id      INTEGER,
    last_error      TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    UNIQUE (repo_full_name, token),
    CHECK ((claim_id IS NULL) = (claimed_until IS NULL)),
    CHECK ((attempts = 0) = (attempted_at IS NULL))
) STRICT;
CREATE INDEX idx_outbox_open ON outbox (id) WHERE status IN ('planned', 'posted');
CREATE INDEX idx_outbox_attempted ON outbox (project_id, attempted_at);

-- Commands of operators, stored before they are applied.
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

-- The source issues that are followed, since when in this state, and how far their comments were routed.
CREATE TABLE issue_comment_cursors (
    repo_full_name                     TEXT NOT NULL,
    issue_number                       INTEGER NOT NULL,
    project_id                         INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    pr_number                          INTEGER,
    pre_pr_last_consumed_comment_id    INTEGER NOT NULL DEFAULT 0,
    post_pr_last_redirected_comment_id INTEGER NOT NULL DEFAULT 0,
    entered_at                         INTEGER NOT NULL,
    updated_at                         INTEGER NOT NULL,
    PRIMARY KEY (project_id, issue_number)
) STRICT, WITHOUT ROWID;

-- Comments on a source issue before its pull request: those without an event wait to be batched.
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

-- Counters that outlive the process; `labels` is canonical JSON.
CREATE TABLE metric_counters (
    name   TEXT NOT NULL,
    labels TEXT NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;

-- How each repository was read last, and what a poll by its feeds is expected to cost.
CREATE TABLE poll_costs (
    project_id    INTEGER PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    mode          TEXT NOT NULL CHECK (mode IN ('repo', 'thread')),
    feed_requests REAL NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;

-- The name and columns under which the cursors of comment lists are documented. An instant that no calendar holds is NULL.
CREATE VIEW github_comment_poll_cursors AS
SELECT CASE WHEN instr(scope, '#') > 0 THEN substr(scope, 1, instr(scope, '#') - 1) ELSE scope END AS repo_full_name,
       substr(surface, 8) AS surface,
       CASE WHEN instr(scope, '#') > 0 THEN CAST(substr(scope, instr(scope, '#') + 1) AS INTEGER) ELSE 0 END
           AS scope_number,
       CASE WHEN watermark_at BETWEEN 0 AND 253402300799999
           THEN strftime('%Y-%m-%dT%H:%M:%SZ', watermark_at / 1000, 'unixepoch') END AS last_updated_at,
       CASE WHEN watermark_id NOT GLOB '*[^0-9]*' THEN CAST(watermark_id AS INTEGER) END AS last_comment_id,
       bootstrap_complete,
       CASE WHEN updated_at BETWEEN 0 AND 253402300799999
           THEN strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') END AS updated_at
FROM cursors
WHERE surface LIKE 'github.%';
