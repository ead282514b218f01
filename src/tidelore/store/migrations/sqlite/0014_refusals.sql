-- Kinds of children that a server refuses for a whole project, and when they are tried again.
CREATE TABLE refused_children (
    project_id       INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    parent_kind      TEXT NOT NULL CHECK (parent_kind IN ('issues', 'merge_requests')),
    kind             TEXT NOT NULL,
    -- Parents that answer themselves and were refused this kind: a JSON list of row ids.
    parents          TEXT NOT NULL,
    -- How often the kind was tried since it counts as unavailable; 0: too few parents were refused to tell.
    attempts         INTEGER NOT NULL DEFAULT 0,
    error            TEXT NOT NULL,
    first_refused_at INTEGER NOT NULL,
    next_attempt_at  INTEGER,
    PRIMARY KEY (project_id, parent_kind, kind),
    CHECK ((attempts > 0) = (next_attempt_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
