-- How a host was last accessed. If its address or the credentials change, what it refused before is asked for again.
CREATE TABLE source_access (
    source      TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,                                           -- short hash of the address and the credentials
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE projects ADD COLUMN base_url TEXT;                           -- address of the server that last returned it
ALTER TABLE projects ADD COLUMN tracking_rule TEXT;                      -- authors and labels whose open pull requests were last looked for
