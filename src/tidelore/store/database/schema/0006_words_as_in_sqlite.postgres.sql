-- Words as SQLite has them: split at everything that is neither letter nor digit, stemmed by Porter's rules, without a
-- list of words that are left out. PostgreSQL's own parser keeps `os.path`, `a/b.py` and addresses as one word each.
CREATE TEXT SEARCH DICTIONARY lore_stem (TEMPLATE = snowball, LANGUAGE = porter);
CREATE TEXT SEARCH CONFIGURATION lore_words (PARSER = pg_catalog.default);
ALTER TEXT SEARCH CONFIGURATION lore_words ADD MAPPING FOR
    asciiword, word, numword, int, uint, float, sfloat, version, host, url, url_path, file, email,
    hword, asciihword, numhword, hword_part, hword_asciipart, hword_numpart
    WITH lore_stem;

-- Takes away the signs between which PostgreSQL's parser finds no words. (`translate` takes ten times as long.)
-- Those beyond ASCII are listed, because what a letter is depends on the locale of a database. Accents are removed as in
-- `without_accents`, which cannot be called here: a backup is restored without a search path.
CREATE FUNCTION without_signs(value text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(
        CASE WHEN octet_length(value) = char_length(value) THEN value
            ELSE regexp_replace(normalize(regexp_replace(normalize(value, NFD), U&'[\0300-\036F]', '', 'g'), NFC),
                U&'[\0080-\00A9\00AB-\00B1\00B4\00B6-\00B8\00BB\00BF\00D7\00F7\2000-\206F\20A0-\20CF\2190-\245F'
                '\2500-\2BFF\3000-\3004\3008-\3020\3030\FE0F\FE30-\FE6F\FF01-\FF0F\FF1A-\FF20\FF3B-\FF40'
                '\FF5B-\FF65\+01F000-\+01FAFF]', ' ', 'g') END,
        '.', ' '), '-', ' '), '/', ' '), '_', ' '), '@', ' '), '<', ' '), '&', ' '), '+', ' '), '~', ' ')
$$;

-- The weights are those of the columns, in the order of the text: titles and labels first, people last. From this order
-- a search derives how often a column has a word. Bigrams come before the content, because phrases are only found near
-- the beginning of a long text. The mark # is in every document: by it a search asks how long the document is.
ALTER TABLE documents DROP COLUMN search_vector;
ALTER TABLE documents ADD COLUMN search_vector tsvector GENERATED ALWAYS AS (
    '#:1D'::tsvector
    || setweight(to_tsvector('lore_words', without_signs(title)), 'A')
    || setweight(to_tsvector('lore_words', without_signs(labels)), 'B')
    || setweight(to_tsvector('lore_words', bigrams), 'C')
    || setweight(to_tsvector('lore_words', without_signs(content)), 'C')
    || setweight(to_tsvector('lore_words', without_signs(participants)), 'D')
) STORED;
CREATE INDEX idx_documents_search ON documents USING gin (search_vector);
ANALYZE documents;
