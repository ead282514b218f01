-- What each source last said is left of our rate limit: for whoever looks from outside.
CREATE TABLE source_budgets (
    source     TEXT PRIMARY KEY,
    remaining  BIGINT NOT NULL,
    -- When it fills up again, by our own clock; NULL where it does not say.
    reset_at   BIGINT,
    updated_at BIGINT NOT NULL
);
