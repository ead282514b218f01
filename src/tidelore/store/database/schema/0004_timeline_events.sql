-- Other events of the timeline of an issue or pull request: assignments, review requests, new titles, force-pushes,
-- references from elsewhere, deleted comments.
CREATE TABLE timeline_events (
    id               INTEGER PRIMARY KEY,
    event_key        TEXT NOT NULL,                                      -- its id, or number, source and time of a reference
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    issue_id         INTEGER REFERENCES issues (id) ON DELETE CASCADE,
    merge_request_id INTEGER REFERENCES merge_requests (id) ON DELETE CASCADE,
    user_username    TEXT,
    action           TEXT NOT NULL,                                      -- as the forge names it: assigned, cross-referenced
    subject          TEXT,                                               -- the person, title, commit or item it is about
    created_at       INTEGER NOT NULL,
    content_hash     BLOB NOT NULL,
    UNIQUE (project_id, event_key),
    CHECK ((issue_id IS NULL) <> (merge_request_id IS NULL))
) STRICT;
CREATE INDEX idx_timeline_events_issue ON timeline_events (issue_id, created_at);
CREATE INDEX idx_timeline_events_mr ON timeline_events (merge_request_id, created_at);
