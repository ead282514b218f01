"""Opens a database by its address: a SQLite file or a postgresql:// URL.

Imports only the driver that is needed.
"""

from __future__ import annotations

from tidelore.core.config_file import check_database_address, is_url
from tidelore.store.database.port import Database, Patience


def open_database(address: str, *, create: bool = True, patience: Patience | None = None) -> Database:
    """Open a SQLite file or a postgresql:// URL."""
    check_database_address(address)
    patience = patience or Patience()
    if is_url(address):
        from tidelore.store.database.postgres import PostgresDatabase

        return PostgresDatabase(address, patience)
    from tidelore.store.database.sqlite import SqliteDatabase

    return SqliteDatabase(address, create=create, patience=patience)
