"""Whoever deletes a row makes the database look for what refers to it: by an index, not by reading a table whole."""

from __future__ import annotations

from collections import defaultdict

from tidelore.store.database.port import Database

NEVER_DELETED = {"projects", "labels", "embedding_models", "payload_dictionaries"}
"""Tables whose rows stay, or of which there are so few that all that refers to one goes with it."""
_REFERENCES = {
    "sqlite": (
        'SELECT m.name, f."table", f.id, f."from" FROM sqlite_schema m, pragma_foreign_key_list(m.name) f'
        " WHERE m.type = 'table' ORDER BY m.name, f.id, f.seq"
    ),
    "postgres": (
        "SELECT c.conrelid::regclass::text, c.confrelid::regclass::text, c.oid::bigint, a.attname"
        " FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey) WITH ORDINALITY k (number, place)"
        " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number"
        " WHERE c.contype = 'f' ORDER BY 1, 3, k.place"
    ),
}
_INDEXES = {
    "sqlite": (
        "SELECT m.name, i.name, c.name FROM sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c"
        " WHERE m.type = 'table' ORDER BY m.name, i.name, c.seqno"
    ),
    "postgres": (
        "SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, a.attname"
        " FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY k (number, place)"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
        " ORDER BY 1, 2, k.place"
    ),
}


def test_every_foreign_key_to_a_deletable_row_has_an_index(database: Database, dialect: str) -> None:
    indexes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for table, name, column in database.read(_INDEXES[dialect]):
        indexes[table][name].append(column)
    references: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for table, parent, number, column in database.read(_REFERENCES[dialect]):
        references[table, parent, number].append(column)
    assert len(references) > 20
    missing = [
        (table, columns)
        for (table, parent, _), columns in references.items()
        if parent not in NEVER_DELETED
        and not any(set(index[: len(columns)]) == set(columns) for index in indexes[table].values())
    ]
    assert missing == []
