"""What a schema is, as the database itself tells it: for comparing one with another."""

from __future__ import annotations

from tidelore.store.database.port import Database

_COLUMNS = (
    "SELECT 'column', table_name, ordinal_position::text, column_name, data_type, is_nullable, column_default"
    " FROM information_schema.columns WHERE table_schema = current_schema()"
)
_CONSTRAINTS = (
    "SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = current_schema()::regnamespace"
)
_INDEXES = "SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
_VIEWS = "SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = current_schema()"


def schema_of(database: Database) -> list[str]:
    """Return everything that makes up the schema, in a fixed order."""
    if database.dialect == "sqlite":
        rows = database.read("SELECT type, name, tbl_name, COALESCE(sql, '') FROM sqlite_schema")
    else:
        rows = [row for query in (_COLUMNS, _CONSTRAINTS, _INDEXES, _VIEWS) for row in database.read(query)]
    return sorted(repr(row) for row in rows)


def columns_of(database: Database) -> dict[str, list[tuple[str, bool]]]:
    """Return each table's and view's columns in order, and whether each must be filled.

    Full text is each database's own affair: FTS5 keeps tables beside `documents`, PostgreSQL a column in it. So are
    vectors: pgvector keeps them in a column of `embeddings`.
    """
    query = (
        'SELECT m.name, c.name, c."notnull" OR c.pk > 0 FROM sqlite_schema m JOIN pragma_table_info(m.name) c'
        " WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'"
        " AND m.name NOT LIKE 'documents_fts%' AND m.name NOT LIKE 'documents_trigram%'"
        " AND m.name NOT LIKE 'document_words_trigram%' ORDER BY m.name, c.cid"
        if database.dialect == "sqlite"
        else "SELECT table_name, column_name, is_nullable = 'NO' FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND column_name NOT IN ('search_vector', 'vector')"
        " ORDER BY table_name, ordinal_position"
    )
    found: dict[str, list[tuple[str, bool]]] = {}
    for table, column, required in database.read(query):
        found.setdefault(table, []).append((column, bool(required)))
    return found


def indexes_of(database: Database) -> set[tuple[str, str]]:
    """Return the named indexes and the table each belongs to."""
    query = (
        "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'idx%'"
        if database.dialect == "sqlite"
        else "SELECT indexname, tablename FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE 'idx%'"
        " AND indexname <> 'idx_documents_search'"
    )
    return {(name, table) for name, table in database.read(query)}
