-- Secrets of this copy, made when they are first needed and never shown. 'action_tokens' signs what we post.
CREATE TABLE local_secrets (
    name       TEXT PRIMARY KEY,
    secret     BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
