-- Comments that became no event because of who wrote them, in their newest version. `record` is the comment as JSON:
-- when the list of allowed users changes, it is judged again without asking the server.
CREATE TABLE ignored_comments (
    project_id  BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK (kind IN ('issue_comment', 'review_comment', 'review_summary')),
    comment_id  BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    author      TEXT,
    association TEXT,
    reason      TEXT NOT NULL CHECK (reason IN ('not_allowed', 'bot', 'deleted_account')),
    updated_at  BIGINT NOT NULL,
    record      TEXT NOT NULL,
    PRIMARY KEY (project_id, kind, comment_id)
);
CREATE INDEX idx_ignored_comments_author ON ignored_comments (project_id, number, author, association, reason);
