-- A document of a post belongs to no project. The rows stay as they are, so only what the tables say of themselves is
-- changed: documents, full text and vectors are not touched, and nothing is copied. (To drop the old table would take
-- the vectors along: they refer to it.)
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, 'source_type IN (''issue'', ''merge_request'', ''discussion'')',
                       'source_type IN (''issue'', ''merge_request'', ''discussion'', ''post'')')
WHERE type = 'table' AND name IN ('dirty_sources', 'documents');
UPDATE sqlite_schema
SET sql = replace(replace(replace(sql,
    'thread_type IN (''issue'', ''merge_request'')', 'thread_type IN (''issue'', ''merge_request'', ''post'')'),
    'project_id      INTEGER NOT NULL REFERENCES', 'project_id      INTEGER REFERENCES'),
    'UNIQUE (source_type, source_id)',
    'UNIQUE (source_type, source_id),
    CHECK ((source_type = ''post'') = (project_id IS NULL))')
WHERE type = 'table' AND name = 'documents';
PRAGMA writable_schema = RESET;

-- Whom we follow. The DID is the identity; a handle may change. A pause grows with every failure in a row.
CREATE TABLE accounts (
    id                  INTEGER PRIMARY KEY,
    did                 TEXT NOT NULL UNIQUE,
    handle              TEXT NOT NULL,
    display_name        TEXT,
    state               TEXT NOT NULL CHECK (state IN ('new', 'established', 'unavailable', 'paused')),
    reason              TEXT,
    mode                TEXT CHECK (mode IN ('feed', 'records')),
    pds_url             TEXT,
    pds_resolved_at     INTEGER,
    added_by            TEXT NOT NULL,
    next_poll_at        INTEGER NOT NULL,
    interval_seconds    INTEGER NOT NULL CHECK (interval_seconds > 0),
    last_post_at        INTEGER,
    last_polled_at      INTEGER,
    posts_fetched_count INTEGER NOT NULL DEFAULT 0,
    failures            INTEGER NOT NULL DEFAULT 0,
    last_error          TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX idx_accounts_handle ON accounts (handle);
CREATE INDEX idx_accounts_due ON accounts (next_poll_at, id) WHERE state <> 'paused';

-- Posts, replies, quotes and reposts. `subject_uri` is what a repost repeats, `sort_at` its place in the author's feed;
-- `content_hash` tells one version of it from another, `edited_at` when another than the first one came.
CREATE TABLE posts (
    id             INTEGER PRIMARY KEY,
    uri            TEXT NOT NULL UNIQUE,
    cid            TEXT NOT NULL,
    account_id     INTEGER REFERENCES accounts (id) ON DELETE SET NULL,
    author_did     TEXT NOT NULL,
    author_handle  TEXT,
    kind           TEXT NOT NULL CHECK (kind IN ('post', 'reply', 'quote', 'repost')),
    text           TEXT NOT NULL,
    langs          TEXT NOT NULL,
    reply_parent   TEXT,
    reply_root     TEXT,
    quoted_uri     TEXT,
    subject_uri    TEXT,
    created_at     INTEGER NOT NULL,
    indexed_at     INTEGER,
    sort_at        INTEGER NOT NULL,
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
CREATE INDEX idx_posts_payload ON posts (raw_payload_id);
CREATE INDEX idx_posts_parent ON posts (reply_parent) WHERE reply_parent IS NOT NULL;
CREATE INDEX idx_posts_subject ON posts (subject_uri) WHERE subject_uri IS NOT NULL;

-- Every address that was shared, once, with what a preview card said of it.
CREATE TABLE links (
    id              INTEGER PRIMARY KEY,
    url             TEXT NOT NULL UNIQUE,
    title           TEXT,
    description     TEXT,
    thumb           TEXT,
    first_shared_at INTEGER NOT NULL,
    last_shared_at  INTEGER NOT NULL
) STRICT;

-- Who shared what, and when: `raw` is the address as it was written, `sharer` the author's DID, so that the index alone
-- tells what is shared most. A deleted post shares nothing.
CREATE TABLE post_links (
    post_id   INTEGER NOT NULL REFERENCES posts (id) ON DELETE CASCADE,
    link_id   INTEGER NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    raw       TEXT NOT NULL,
    shared_at INTEGER NOT NULL,
    sharer    TEXT NOT NULL,
    PRIMARY KEY (post_id, link_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_post_links_shared ON post_links (shared_at, link_id, sharer);
CREATE INDEX idx_post_links_link ON post_links (link_id, shared_at, sharer);

-- The name and columns under which polling positions are documented: the newest post up to which an account is known
-- to be complete, and when it was asked last, as UTC timestamps.
CREATE VIEW poll_state AS
SELECT handle AS user_handle,
       strftime('%Y-%m-%dT%H:%M:%S', high_water / 1000, 'unixepoch') || printf('.%03dZ', high_water % 1000)
           AS last_cursor,
       strftime('%Y-%m-%dT%H:%M:%S', last_polled_at / 1000, 'unixepoch') || printf('.%03dZ', last_polled_at % 1000)
           AS last_polled_at,
       posts_fetched_count
FROM (
    SELECT a.handle, a.last_polled_at, a.posts_fetched_count,
           (SELECT MAX(c.watermark_at) FROM cursors c WHERE c.source = 'bluesky' AND c.scope = a.did
            AND c.surface IN ('bluesky.author_feed', 'bluesky.records')) AS high_water
    FROM accounts a
) AS positions;
