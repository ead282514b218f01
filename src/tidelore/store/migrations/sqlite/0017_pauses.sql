-- Until when a source asked us to send nothing, by our own clock: every process keeps to it, not only the one that was told.
CREATE TABLE source_pauses (
    source     TEXT PRIMARY KEY,
    until_at   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
