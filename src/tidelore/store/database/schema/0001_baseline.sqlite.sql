-- Full text. The index holds no copy of the text: it reads the row it belongs to.
CREATE VIRTUAL TABLE documents_fts USING fts5 (
    title, content, participants, labels, bigrams,
    content = 'documents', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE documents_trigram USING fts5 (
    identifiers, content = 'documents', content_rowid = 'id', tokenize = 'trigram', detail = 'none'
);
CREATE TRIGGER documents_inserted AFTER INSERT ON documents BEGIN
    INSERT INTO documents_fts (rowid, title, content, participants, labels, bigrams)
    VALUES (new.id, new.title, new.content, new.participants, new.labels, new.bigrams);
    INSERT INTO documents_trigram (rowid, identifiers) VALUES (new.id, new.identifiers);
END;
CREATE TRIGGER documents_deleted AFTER DELETE ON documents BEGIN
    INSERT INTO documents_fts (documents_fts, rowid, title, content, participants, labels, bigrams)
    VALUES ('delete', old.id, old.title, old.content, old.participants, old.labels, old.bigrams);
    INSERT INTO documents_trigram (documents_trigram, rowid, identifiers) VALUES ('delete', old.id, old.identifiers);
END;
CREATE TRIGGER documents_updated AFTER UPDATE OF title, content, participants, labels, bigrams, identifiers ON documents BEGIN
    INSERT INTO documents_fts (documents_fts, rowid, title, content, participants, labels, bigrams)
    VALUES ('delete', old.id, old.title, old.content, old.participants, old.labels, old.bigrams);
    INSERT INTO documents_trigram (documents_trigram, rowid, identifiers) VALUES ('delete', old.id, old.identifiers);
    INSERT INTO documents_fts (rowid, title, content, participants, labels, bigrams)
    VALUES (new.id, new.title, new.content, new.participants, new.labels, new.bigrams);
    INSERT INTO documents_trigram (rowid, identifiers) VALUES (new.id, new.identifiers);
END;

-- Words by any part of at least three letters.
CREATE VIRTUAL TABLE document_words_trigram USING fts5 (
    word, content = 'document_words', content_rowid = 'id', tokenize = 'trigram', detail = 'none'
);
CREATE TRIGGER document_words_inserted AFTER INSERT ON document_words BEGIN
    INSERT INTO document_words_trigram (rowid, word) VALUES (new.id, new.word);
END;
CREATE TRIGGER document_words_deleted AFTER DELETE ON document_words BEGIN
    INSERT INTO document_words_trigram (document_words_trigram, rowid, word) VALUES ('delete', old.id, old.word);
END;

-- The place of a deleted vector is given out again.
CREATE TRIGGER embeddings_deleted AFTER DELETE ON embeddings WHEN old.block IS NOT NULL BEGIN
    INSERT INTO embedding_holes (model_id, block, slot) VALUES (old.model_id, old.block, old.slot);
END;
