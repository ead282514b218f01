-- Secrets of this copy, made when they are first needed and never shown. 'action_tokens' signs what we post.
CREATE TABLE local_secrets (
    name       TEXT PRIMARY KEY,
    secret     BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
