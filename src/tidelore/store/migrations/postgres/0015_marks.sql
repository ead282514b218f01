-- What a post says beside its text: the descriptions of its images and videos, the labels its author gave it and its tags,
-- one on a line each. Rows that are stored already have none until they are read again after a change.
ALTER TABLE posts ADD COLUMN alt_text TEXT NOT NULL DEFAULT '';
ALTER TABLE posts ADD COLUMN labels TEXT NOT NULL DEFAULT '';
ALTER TABLE posts ADD COLUMN tags TEXT NOT NULL DEFAULT '';

-- Whether a note is internal: visible to project members only.
ALTER TABLE notes ADD COLUMN is_internal BIGINT NOT NULL DEFAULT 0 CHECK (is_internal IN (0, 1));
