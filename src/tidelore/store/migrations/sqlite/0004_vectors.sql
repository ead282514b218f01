-- Which model made a vector. Vectors of two models are never compared; `chunking` says how documents were cut into
-- pieces, `slots` how many places were ever given out, `generation` how often vectors were written.
CREATE TABLE embedding_models (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    dimension  INTEGER NOT NULL CHECK (dimension > 0),
    chunking   TEXT NOT NULL,
    slots      INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (name, version, dimension)
) STRICT;

-- One row for each piece of a document: `content_hash` is the document's when it was cut, `chunk_hash` the piece's own,
-- `block` and `slot` say where its vector stands.
CREATE TABLE embeddings (
    model_id     INTEGER NOT NULL REFERENCES embedding_models (id),
    document_id  INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    chunk_hash   BLOB NOT NULL,
    block        INTEGER,
    slot         INTEGER,
    PRIMARY KEY (model_id, document_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_embeddings_document ON embeddings (document_id);

-- The vectors, 1,024 to a row: one byte for each number with a scale for each vector, and to whom each belongs.
CREATE TABLE embedding_blocks (
    model_id   INTEGER NOT NULL REFERENCES embedding_models (id),
    block      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    documents  BLOB NOT NULL,
    positions  BLOB NOT NULL,
    scales     BLOB NOT NULL,
    vectors    BLOB NOT NULL,
    UNIQUE (model_id, block)
) STRICT;

-- Places whose vector belongs to nobody any more: skipped by a search, given out again.
CREATE TABLE embedding_holes (
    model_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    slot     INTEGER NOT NULL,
    PRIMARY KEY (model_id, block, slot)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER embeddings_deleted AFTER DELETE ON embeddings WHEN old.block IS NOT NULL BEGIN
    INSERT INTO embedding_holes (model_id, block, slot) VALUES (old.model_id, old.block, old.slot);
END;

-- What is not embedded is found without reading any text.
CREATE INDEX idx_documents_hash ON documents (id, content_hash);
