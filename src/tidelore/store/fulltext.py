"""The full text of a database. Owns the choice of dialect; only the one that is needed is imported."""

from __future__ import annotations

from tidelore.store.database import Database
from tidelore.store.fulltext_port import FullText


def full_text(database: Database) -> FullText:
    """Return the full text of a database; only its own dialect is imported."""
    if database.dialect == "postgres":
        from tidelore.store.fulltext_postgres import PostgresFullText

        return PostgresFullText(database)
    from tidelore.store.fulltext_sqlite import SqliteFullText

    return SqliteFullText(database)
