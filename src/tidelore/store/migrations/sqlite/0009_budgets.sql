-- What each source last said is left of our rate limit: for whoever looks from outside.
CREATE TABLE source_budgets (
    source     TEXT PRIMARY KEY,
    remaining  INTEGER NOT NULL,
    -- When it fills up again, by our own clock; NULL where it does not say.
    reset_at   INTEGER,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
