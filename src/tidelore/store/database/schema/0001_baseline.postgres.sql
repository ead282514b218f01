-- Accents do not matter in full text. Composed again, because taking characters apart also splits Korean syllables.
CREATE FUNCTION without_accents(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(value) = char_length(value) THEN value
        ELSE normalize(regexp_replace(normalize(value, NFD), U&'[\0300-\036F]', '', 'g'), NFC) END
$$;

-- Full text: the weights are those of the columns, the best first. Bigrams come first, because phrases are only found
-- near the beginning of a long text.
ALTER TABLE documents ADD COLUMN search_vector tsvector GENERATED ALWAYS AS (
    setweight(to_tsvector('simple', bigrams), 'C')
    || setweight(to_tsvector('english', without_accents(title)), 'A')
    || setweight(to_tsvector('simple', without_accents(labels)), 'B')
    || setweight(to_tsvector('english', without_accents(content)), 'C')
    || setweight(to_tsvector('simple', participants), 'D')
) STORED;
-- Keeps rows of up to 8 KB as they are: unpacking the words of each document would take most of the time of a search.
ALTER TABLE documents SET (toast_tuple_target = 8160);
-- Without a list of pending entries, which every search and every removal of words would read from end to end.
CREATE INDEX idx_documents_search ON documents USING gin (search_vector) WITH (fastupdate = off);

-- The place of a deleted vector is given out again.
CREATE FUNCTION note_embedding_hole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO embedding_holes (model_id, block, slot) VALUES (old.model_id, old.block, old.slot);
    RETURN NULL;
END $$;
CREATE TRIGGER embeddings_deleted AFTER DELETE ON embeddings
FOR EACH ROW WHEN (old.block IS NOT NULL) EXECUTE FUNCTION note_embedding_hole();

-- A server without pgvector, or a user who may not install it, is served by blocks as in SQLite.
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector;
        -- Before version 0.7 pgvector has no vectors of half precision.
        IF to_regtype('halfvec') IS NOT NULL THEN
            ALTER TABLE embeddings ADD COLUMN vector halfvec;
        END IF;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'pgvector cannot be installed by this user: vectors are kept in blocks';
END $$;
