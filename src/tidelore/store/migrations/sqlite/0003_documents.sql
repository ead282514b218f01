-- What has to be made into a document again: written in the transaction that changed it.
CREATE TABLE dirty_sources (
    source_type TEXT NOT NULL CHECK (source_type IN ('issue', 'merge_request', 'discussion')),
    source_id   INTEGER NOT NULL,
    queued_at   INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT,
    PRIMARY KEY (source_type, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_dirty_sources_queued ON dirty_sources (queued_at, source_type, source_id);

-- One text for each issue, merge request and discussion. `thread_type` and `thread_id` name the issue or merge request it
-- belongs to, which is itself for a parent's own; `identifiers` are the paths and names that are searched by any part.
CREATE TABLE documents (
    id              INTEGER PRIMARY KEY,
    source_type     TEXT NOT NULL CHECK (source_type IN ('issue', 'merge_request', 'discussion')),
    source_id       INTEGER NOT NULL,
    project_id      INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    thread_type     TEXT NOT NULL CHECK (thread_type IN ('issue', 'merge_request')),
    thread_id       INTEGER NOT NULL,
    title           TEXT NOT NULL,
    state           TEXT NOT NULL,
    author_username TEXT,
    participants    TEXT NOT NULL,
    labels          TEXT NOT NULL,
    paths           TEXT NOT NULL,
    identifiers     TEXT NOT NULL,
    content         TEXT NOT NULL,
    url             TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    generated_at    INTEGER NOT NULL,
    content_hash    BLOB NOT NULL,
    UNIQUE (source_type, source_id)
) STRICT;
CREATE INDEX idx_documents_thread ON documents (thread_type, thread_id);
CREATE INDEX idx_documents_project ON documents (project_id, updated_at);
CREATE INDEX idx_documents_updated ON documents (updated_at);

-- Full text. The index holds no copy of the text: it reads the row it belongs to.
CREATE VIRTUAL TABLE documents_fts USING fts5 (
    title, content, participants, labels,
    content = 'documents', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE documents_trigram USING fts5 (
    identifiers, content = 'documents', content_rowid = 'id', tokenize = 'trigram', detail = 'none'
);
CREATE TRIGGER documents_inserted AFTER INSERT ON documents BEGIN
    INSERT INTO documents_fts (rowid, title, content, participants, labels)
    VALUES (new.id, new.title, new.content, new.participants, new.labels);
    INSERT INTO documents_trigram (rowid, identifiers) VALUES (new.id, new.identifiers);
END;
CREATE TRIGGER documents_deleted AFTER DELETE ON documents BEGIN
    INSERT INTO documents_fts (documents_fts, rowid, title, content, participants, labels)
    VALUES ('delete', old.id, old.title, old.content, old.participants, old.labels);
    INSERT INTO documents_trigram (documents_trigram, rowid, identifiers) VALUES ('delete', old.id, old.identifiers);
END;
CREATE TRIGGER documents_updated AFTER UPDATE OF title, content, participants, labels, identifiers ON documents BEGIN
    INSERT INTO documents_fts (documents_fts, rowid, title, content, participants, labels)
    VALUES ('delete', old.id, old.title, old.content, old.participants, old.labels);
    INSERT INTO documents_trigram (documents_trigram, rowid, identifiers) VALUES ('delete', old.id, old.identifiers);
    INSERT INTO documents_fts (rowid, title, content, participants, labels)
    VALUES (new.id, new.title, new.content, new.participants, new.labels);
    INSERT INTO documents_trigram (rowid, identifiers) VALUES (new.id, new.identifiers);
END;

-- Everything that is stored already has no document yet.
INSERT INTO dirty_sources (source_type, source_id, queued_at) SELECT 'issue', id, updated_at FROM issues;
INSERT INTO dirty_sources (source_type, source_id, queued_at) SELECT 'merge_request', id, updated_at FROM merge_requests;
INSERT INTO dirty_sources (source_type, source_id, queued_at)
SELECT 'discussion', id, COALESCE(last_note_at, 0) FROM discussions;
